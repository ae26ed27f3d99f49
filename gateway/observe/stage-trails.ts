import type { Principal } from '../authenticate/principal.ts'
import type { GatewayError } from '../errors/gateway-error.ts'
import type { StreamFailureCode } from '../errors/stream-failure.ts'
import type { Upstream } from '../locate/upstream.ts'
import type { Client } from '../receive/client.ts'
import type { RequestTarget } from '../receive/target.ts'
import type { Organization, OrganizationHeaders } from '../resolve/organization.ts'
import type { Resource } from '../resolve/resource.ts'
import type { RouteMatch } from '../route/table.ts'
import type { ObserveMs } from './metrics/bound-histogram.ts'
import { type Stage, type StageMetrics, stages } from './metrics/stages.ts'
import type { ObserveRequest, Trail } from './trail.ts'

/** Stages go by their place here: what is named is looked for by its name, ten times a request. */
const place = Object.fromEntries(stages.map((stage, index) => [stage, index])) as Readonly<Record<Stage, number>> // all of them

type Watch = Readonly<{ metrics: StageMetrics; observers: readonly ObserveMs[]; monotonicMs: () => number }>

/** Observes how long each stage takes, by what the trail hears of it: the clock is read once a stage. */
export function observeStages(metrics: StageMetrics, monotonicMs: () => number): ObserveRequest {
  const watch: Watch = { metrics, observers: stages.map((stage) => metrics.observeStage[stage]), monotonicMs }
  return (trail) => new StageTrail(trail, watch)
}

/** A class like the trail behind it: every request has one. */
class StageTrail implements Trail {
  readonly #trail: Trail
  readonly #watch: Watch
  #sinceMs: number
  /** The stage under way: a refusal ends it. */
  #current: number | undefined = place.route
  #isAllowed = false

  constructor(trail: Trail, watch: Watch) {
    this.#trail = trail
    this.#watch = watch
    this.#sinceMs = watch.monotonicMs()
  }

  received(client: Client): void {
    this.#trail.received(client)
  }

  targeted(target: RequestTarget, host: string, headers: OrganizationHeaders): void {
    this.#trail.targeted(target, host, headers)
  }

  matched(match: RouteMatch): void {
    this.#trail.matched(match)
    this.#end(place.route)
  }

  authenticated(principal: Principal): void {
    this.#trail.authenticated(principal)
    this.#end(place.authenticate)
  }

  resolved(organization: Organization | undefined): void {
    this.#trail.resolved(organization)
    this.#end(place.resolve)
  }

  found(resource: Resource | undefined): void {
    this.#trail.found(resource)
    this.#end(place.resource)
  }

  allowed(): void {
    this.#trail.allowed()
    this.#isAllowed = true
    // A preflight is allowed before there is a route.
    this.#end(this.#current === place.route ? place.route : place.decide)
  }

  located(upstream: Upstream): void {
    this.#trail.located(upstream)
    this.#end(place.locate)
  }

  settled(): void {
    if (this.#current === place.pin) this.#end(place.pin)
    this.#current = undefined
    this.#trail.settled()
  }

  refused(error: GatewayError): void {
    if (this.#current !== undefined) this.#end(this.#current)
    this.#current = undefined
    if (this.#isAllowed) this.#watch.metrics.countFailure(error.code)
    this.#trail.refused(error)
  }

  unrecorded(error: GatewayError): void {
    this.#trail.unrecorded(error)
  }

  identified(upstreamRequestId: string): void {
    this.#trail.identified(upstreamRequestId)
  }

  broke(error: unknown): void {
    this.#trail.broke(error)
  }

  streamFailed(code: StreamFailureCode, cause: unknown): void {
    this.#trail.streamFailed(code, cause)
  }

  #end(stage: number): void {
    const { observers, monotonicMs } = this.#watch
    const nowMs = monotonicMs()
    observers[stage]?.(nowMs - this.#sinceMs)
    this.#sinceMs = nowMs
    this.#current = stage + 1 < stages.length ? stage + 1 : undefined
  }
}
