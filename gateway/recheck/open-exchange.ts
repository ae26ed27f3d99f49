import type { Proof } from '../authenticate/principal.ts'
import { enforce, type Pending, type Permit, settle } from '../authorize/decide.ts'
import { type Consultation, composeConsultation } from '../consult/compose.ts'
import { type Tag, tagsOfResource } from '../directory/change.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import type { AccessEndCode } from '../errors/stream-failure.ts'
import type { Cancellable } from '../http/engine.ts'
import type { Exchange } from '../http/exchange.ts'
import { ownText } from '../lib/own-text.ts'
import type { Slot } from '../lib/unordered-list.ts'
import type { Upstream } from '../locate/upstream.ts'
import type { PathRewrite } from '../policy/route.ts'
import { parseId } from '../resolve/organization-id.ts'
import type { Resource } from '../resolve/resource.ts'
import { readHeaderId, readResourceIds } from '../resolve/resource-ids.ts'
import type { RouteMatch } from '../route/table.ts'

export type AccessEnd = Readonly<{
  code: AccessEndCode
  refusal: GatewayError
  isCredential: boolean
  sessionEndId?: number
}>

export type OpeningFacts = Readonly<{
  requestId: string
  clientAddress: string
  path: string | undefined
  route: string | undefined
}>

export type Opening = Readonly<{
  exchange: Exchange
  permit: Permit
  upstream: Upstream
  host: string
  report: Readonly<{
    noteAccessEnd: (code: AccessEndCode, cause: unknown) => void
    describeOpening: () => OpeningFacts
  }>
}>

/** RFC 6455 7.4.1: the endpoint violates a policy. */
const policyViolation = 1008

/**
 * An exchange that was permitted and has not ended, with the facts by which it is judged again. Thousands are open for
 * hours, so once the head of the response is in, it holds no user and no credential. Times are whole milliseconds of the
 * monotonic clock, or 0 while unset.
 */
export class OpenExchange implements Slot<OpenExchange> {
  member: OpenExchange | undefined = this
  index = 0
  readonly number: number
  readonly exchange: Exchange
  readonly host: string
  readonly organizationId: number | undefined
  readonly userId: number | undefined
  readonly upstreamName: string
  readonly openedAtMs: number
  readonly #report: Opening['report']
  proof: Proof | undefined
  #place: Place
  consultation: Consultation | undefined
  consultedAtMs = 0
  expiresAtMs = 0
  verifiedAtMs: number
  /** The time of the first change that names this exchange and is not judged yet. */
  namedAtMs = 0
  /** Whether the facts must be read again, even if no change was missed since. */
  isStale = false
  queue: 'named' | 'stale' | 'facts' | 'outdated-facts' | undefined
  /** Whether the head of the request was written, to one upstream at least. */
  isForwarded = false
  #permit: Permit | undefined
  /** The last decision, while its decision points have not said yes. */
  #pending: Pending | undefined
  /** The count of heard changes from before the facts were read that decided last. */
  heard: number
  stream: Readonly<{ endAccess: (code: AccessEndCode, cause: unknown) => void }> | undefined
  #request: Cancellable | undefined
  end: AccessEnd | undefined
  endedAtMs = 0

  constructor(
    { exchange, permit, upstream, host, report }: Opening,
    number: number,
    nowMs: number,
    verifiedAtMs: number,
    heard = 0,
  ) {
    const { match, caller } = permit
    this.#permit = permit
    this.heard = heard
    this.number = number
    this.exchange = exchange
    this.host = host
    this.organizationId = caller?.organization?.id
    this.userId = caller?.principal.user.id
    this.proof = caller?.principal.proof
    this.upstreamName = upstream.name
    this.openedAtMs = nowMs
    this.verifiedAtMs = verifiedAtMs
    this.#report = report
    this.#place = describePlace(match, upstream, exchange)
    if (caller && match.route.questions.length > 0) {
      this.consultation = composeConsultation(match, caller)
      this.consultedAtMs = nowMs
    }
    this.noteResource(match, caller?.resource)
  }

  get asksForWebSocket(): boolean {
    return this.#place.asksForWebSocket
  }

  get rewrite(): PathRewrite | undefined {
    return this.#place.rewrite
  }

  get clusterOrigin(): string | undefined {
    return this.#place.clusterOrigin
  }

  get idHeader(): readonly string[] {
    return this.#place.idHeader
  }

  get agentId(): number | undefined {
    return this.#place.agentId
  }

  get clusterId(): number | undefined {
    return this.#place.clusterId
  }

  get resourceTags(): readonly Tag[] {
    return this.#place.resourceTags
  }

  noteMatch(match: RouteMatch): void {
    const [agentId, clusterId] = [agentIdOf(match, this.idHeader), clusterIdOf(match)]
    if (agentId !== this.agentId || clusterId !== this.clusterId) this.#place = { ...this.#place, agentId, clusterId }
  }

  noteResource({ route }: RouteMatch, resource: Resource | undefined): void {
    const isFound = resource?.kind === 'object' && typeof resource.record === 'object'
    if (isFound && route.resource?.kind === 'object')
      this.#place = { ...this.#place, resourceTags: tagsOfResource(route.resource.object, resource.record) }
  }

  /** The permit of the facts last judged, from which the head is written. */
  get permit(): Permit {
    if (!this.#permit || this.#pending) throw new GatewayError('internal')
    return this.#permit
  }

  get isPending(): boolean {
    return this.#pending !== undefined
  }

  /** After `releasePermit` no head will be written. */
  keepPermit(permit: Permit): void {
    if (!this.#permit) return
    this.#permit = permit
    this.#pending = undefined
  }

  keepPending(pending: Pending): void {
    if (this.#permit) this.#pending = pending
  }

  /** The decision points have said yes to all questions of the pending decision. */
  settlePending(): void {
    const pending = this.#pending
    if (pending)
      this.keepPermit(
        enforce(
          settle(
            pending,
            pending.match.route.questions.map(() => true),
          ),
        ),
      )
  }

  releasePermit(): void {
    this.#permit = undefined
    this.#pending = undefined
  }

  describeOpening(): OpeningFacts {
    return this.#report.describeOpening()
  }

  get owner(): string {
    return this.organizationId === undefined ? `user ${this.userId}` : `organization ${this.organizationId}`
  }

  get isOver(): boolean {
    return this.member === undefined
  }

  /** Whether its end may be told by a broken connection alone: its bytes may have touched data, which no 403 denies. */
  get breaksOff(): boolean {
    return this.isForwarded && this.end !== undefined && (!this.end.isCredential || this.exchange.hasStarted)
  }

  onCancellable(request: Cancellable): void {
    this.#request = request
    if (this.end || this.isOver) request.cancel()
  }

  leave(isComplete: boolean): void {
    if (!isComplete || this.end) this.#request?.cancel()
  }

  /** Stops both directions. Before the response has begun, the pipeline answers. */
  finish(end: AccessEnd, nowMs: number): void {
    if (this.end || this.isOver) return
    this.end = end
    this.endedAtMs = nowMs
    const { exchange, stream } = this
    if (stream) {
      stream.endAccess(end.code, end.refusal)
      return
    }
    // A whole response is let out: what the client has not taken soon is dropped with its connection.
    if (!exchange.hasStarted || exchange.isAnswered) {
      this.#request?.cancel()
      return
    }
    this.#report.noteAccessEnd(end.code, end.refusal)
    if (exchange.status === 101) exchange.closeTunnel(policyViolation)
    else exchange.reset()
    this.#request?.cancel()
  }
}

type Place = Readonly<{
  asksForWebSocket: boolean
  rewrite: PathRewrite | undefined
  clusterOrigin: string | undefined
  /** The header that named the resource, as name and value: the response's begin empties the request's headers. */
  idHeader: readonly string[]
  agentId: number | undefined
  clusterId: number | undefined
  resourceTags: readonly Tag[]
}>

const noHeader: readonly string[] = []

const noPlace: Place = {
  asksForWebSocket: false,
  rewrite: undefined,
  clusterOrigin: undefined,
  idHeader: noHeader,
  agentId: undefined,
  clusterId: undefined,
  resourceTags: [],
}

const noPlaceOfSocket: Place = { ...noPlace, asksForWebSocket: true }

function describePlace(
  match: RouteMatch,
  { origin }: Upstream,
  { isHandshake, headers }: Pick<Exchange, 'isHandshake' | 'headers'>,
): Place {
  const { rewrite, resource, destination, isWebSocket } = match.route
  const usual = isHandshake && isWebSocket ? noPlaceOfSocket : noPlace
  if (rewrite === undefined && resource === undefined && destination.kind !== 'cluster') return usual
  const idHeader = findIdHeader(match, headers)
  const clusterOrigin = destination.kind === 'cluster' ? origin : undefined
  const [agentId, clusterId] = [agentIdOf(match, idHeader), clusterIdOf(match)]
  return { ...usual, rewrite, clusterOrigin, idHeader, agentId, clusterId }
}

function findIdHeader({ route }: RouteMatch, headers: readonly string[]): readonly string[] {
  const place = route.resource?.place
  return place?.in === 'header' ? [place.name, ownText(readHeaderId(headers, place.name))] : noHeader
}

export const agentIdOf = (match: RouteMatch, idHeader: readonly string[]): number | undefined =>
  match.route.resource?.kind === 'agent' ? parseId(readResourceIds(match, idHeader)?.[0] ?? '') : undefined

export function clusterIdOf({ route, params }: RouteMatch): number | undefined {
  const { destination } = route
  return destination.kind === 'cluster' ? parseId(params.get(destination.param) ?? '') : undefined
}
