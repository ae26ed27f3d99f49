import type { GatewayError } from '../base/errors/gateway-error.ts'
import type { StreamFailureCode } from '../base/errors/stream-failure.ts'
import type { Principal } from '../stages/authenticate/principal.ts'
import type { Upstream } from '../stages/locate/upstream.ts'
import type { Client } from '../stages/receive/client.ts'
import type { RequestTarget } from '../stages/receive/target.ts'
import type { Organization } from '../stages/resolve/organization.ts'
import type { Resource } from '../stages/resolve/resource.ts'
import type { RouteMatch } from '../stages/route/table.ts'
import type { ObserveMs } from './metrics/bound-histogram.ts'
import { type Stage, type StageMetrics, stages } from './metrics/stages.ts'
import type { DecidingHeaders, ObserveRequest, RequestObserver } from './request-record.ts'

const place = Object.fromEntries(stages.map((stage, index) => [stage, index])) as Readonly<Record<Stage, number>> // every stage has its entry

type Watch = Readonly<{ metrics: StageMetrics; observers: readonly ObserveMs[]; monotonicMs: () => number }>

export function observeStages(metrics: StageMetrics, monotonicMs: () => number): ObserveRequest {
  const watch: Watch = { metrics, observers: stages.map((stage) => metrics.observeStage[stage]), monotonicMs }
  return (next) => new StageTimings(next, watch)
}

class StageTimings implements RequestObserver {
  readonly #next: RequestObserver
  readonly #watch: Watch
  #sinceMs: number
  #current: number | undefined = place.route
  #isAllowed = false

  constructor(next: RequestObserver, watch: Watch) {
    this.#next = next
    this.#watch = watch
    this.#sinceMs = watch.monotonicMs()
  }

  onClient(client: Client): void {
    this.#next.onClient(client)
  }

  onTarget(target: RequestTarget, host: string, headers: DecidingHeaders): void {
    this.#next.onTarget(target, host, headers)
  }

  onMatch(match: RouteMatch): void {
    this.#next.onMatch(match)
    this.#end(place.route)
  }

  onPrincipal(principal: Principal): void {
    this.#next.onPrincipal(principal)
    this.#end(place.authenticate)
  }

  onOrganization(organization: Organization | undefined): void {
    this.#next.onOrganization(organization)
    this.#end(place.resolve)
  }

  onResource(resource: Resource | undefined): void {
    this.#next.onResource(resource)
    this.#end(place.resource)
  }

  onAllowed(): void {
    this.#next.onAllowed()
    this.#isAllowed = true
    this.#end(this.#current === place.route ? place.route : place.decide)
  }

  onUpstream(upstream: Upstream): void {
    this.#next.onUpstream(upstream)
    this.#end(place.locate)
  }

  onSettled(): void {
    this.#current = undefined
    this.#next.onSettled()
  }

  onRefusal(error: GatewayError): void {
    if (this.#current !== undefined) this.#end(this.#current)
    this.#current = undefined
    if (this.#isAllowed) this.#watch.metrics.countFailure(error.code)
    this.#next.onRefusal(error)
  }

  onUnrecorded(error: GatewayError): void {
    this.#next.onUnrecorded(error)
  }

  onUpstreamRequestId(upstreamRequestId: string): void {
    this.#next.onUpstreamRequestId(upstreamRequestId)
  }

  onBug(error: unknown): void {
    this.#next.onBug(error)
  }

  onStreamFailure(code: StreamFailureCode, cause: unknown): void {
    this.#next.onStreamFailure(code, cause)
  }

  #end(stage: number): void {
    const { observers, monotonicMs } = this.#watch
    const nowMs = monotonicMs()
    observers[stage]?.(nowMs - this.#sinceMs)
    this.#sinceMs = nowMs
    // The time of a signature is measured where it is made: a head may be written long after the stages before.
    this.#current = stage + 1 < place.pin ? stage + 1 : undefined
  }
}
