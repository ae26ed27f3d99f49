import type { Principal } from '../authenticate/principal.ts'
import type { Exchange } from '../engine/exchange.ts'
import type { GatewayError } from '../errors/gateway-error.ts'
import type { StreamFailureCode } from '../errors/stream-failure.ts'
import type { Upstream } from '../locate/upstream.ts'
import type { Client } from '../receive/client.ts'
import type { RequestTarget } from '../receive/target.ts'
import type { Organization, OrganizationHeaders } from '../resolve/organization.ts'
import type { Resource } from '../resolve/resource.ts'
import type { RouteMatch } from '../route/table.ts'
import { type Stage, type StageMetrics, stages } from './stage-metrics.ts'
import type { BeginTrail, Trail } from './trail.ts'

type Watch = Readonly<{ metrics: StageMetrics; monotonicMs: () => number }>

/** Observes how long each stage takes, by what the trail hears of it: the clock is read once a stage. */
export function createStageTrails(
  beginTrail: BeginTrail,
  metrics: StageMetrics,
  monotonicMs: () => number,
): BeginTrail {
  const watch: Watch = { metrics, monotonicMs }
  return (exchange: Exchange, requestId: string) => new StageTrail(beginTrail, exchange, requestId, watch)
}

/** A class like the trail behind it: every request has one. */
class StageTrail implements Trail {
  readonly #trail: Trail
  readonly #watch: Watch
  #sinceMs: number
  /** The stage under way: a refusal ends it. */
  #current: Stage | undefined = 'route'
  #isAllowed = false

  constructor(beginTrail: BeginTrail, exchange: Exchange, requestId: string, watch: Watch) {
    this.#watch = watch
    this.#sinceMs = watch.monotonicMs()
    this.#trail = beginTrail(exchange, requestId)
  }

  received(client: Client): void {
    this.#trail.received(client)
  }

  targeted(target: RequestTarget, host: string, headers: OrganizationHeaders): void {
    this.#trail.targeted(target, host, headers)
  }

  matched(match: RouteMatch): void {
    this.#trail.matched(match)
    this.#end('route')
  }

  authenticated(principal: Principal): void {
    this.#trail.authenticated(principal)
    this.#end('authenticate')
  }

  resolved(organization: Organization | undefined): void {
    this.#trail.resolved(organization)
    this.#end('resolve')
  }

  found(resource: Resource | undefined): void {
    this.#trail.found(resource)
    this.#end('resource')
  }

  allowed(): void {
    this.#trail.allowed()
    this.#isAllowed = true
    // A preflight is allowed before there is a route.
    this.#end(this.#current === 'route' ? 'route' : 'decide')
  }

  located(upstream: Upstream): void {
    this.#trail.located(upstream)
    this.#end('locate')
  }

  settled(status?: number): Promise<void> | undefined {
    if (this.#current === 'pin') this.#end('pin')
    this.#current = undefined
    return this.#trail.settled(status)
  }

  refused(error: GatewayError): Promise<GatewayError> {
    if (this.#current) this.#end(this.#current)
    this.#current = undefined
    if (this.#isAllowed) this.#watch.metrics.countFailure(error.code)
    return this.#trail.refused(error)
  }

  broke(error: unknown): void {
    this.#trail.broke(error)
  }

  streamFailed(code: StreamFailureCode, cause: unknown): void {
    this.#trail.streamFailed(code, cause)
  }

  #end(stage: Stage): void {
    const { metrics, monotonicMs } = this.#watch
    const nowMs = monotonicMs()
    metrics.observeStage[stage](nowMs - this.#sinceMs)
    this.#sinceMs = nowMs
    this.#current = stageAfter[stage]
  }
}

const stageAfter: Readonly<Partial<Record<Stage, Stage>>> = Object.fromEntries(
  stages.slice(0, -1).map((stage, index) => [stage, stages[index + 1]]),
)
