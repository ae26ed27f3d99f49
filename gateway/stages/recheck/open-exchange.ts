import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { AccessEndCode } from '../../base/errors/stream-failure.ts'
import { ownText } from '../../base/lib/own-text.ts'
import type { Slot } from '../../base/lib/unordered-list.ts'
import { type Tag, tagsOfResource } from '../../directory/change.ts'
import type { Cancellable } from '../../http/engine.ts'
import type { Exchange } from '../../http/exchange.ts'
import type { PathRewrite } from '../../policy/route.ts'
import type { Proof } from '../authenticate/principal.ts'
import { enforce, type Pending, type Permit, settle } from '../authorize/decide.ts'
import { type Consultation, composeConsultation } from '../consult/compose.ts'
import type { Upstream } from '../locate/upstream.ts'
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

/** How its right stands. An object of its own lasts only as long as its state, since thousands are `proven` for hours. */
export type Standing =
  | Readonly<{ kind: 'proven' | 'stale' }>
  | Readonly<{ kind: 'named'; sinceMs: number; isStale: boolean }>
  | Readonly<{ kind: 'ended'; atMs: number; end: AccessEnd }>

const proven: Standing = { kind: 'proven' }
const stale: Standing = { kind: 'stale' }

type QueuePlace = 'none' | 'stale' | 'named' | 'facts' | 'outdated-facts' | 'condemned'

/**
 * An exchange that was permitted and has not ended, with the facts by which it is judged again. Three things of it change
 * independently. The first is the standing of its right:
 *
 * | Standing | Begins | Promises | Becomes |
 * |---|---|---|---|
 * | `proven` | facts permit it | facts that nothing proves for `readAgainMs` are read again | `stale`, `named`, `ended` |
 * | `stale` | everything changed, the policy, or its token's abilities | ends once its facts are unknown for longer than `onUnknown` bears | `proven` by facts of a later time, `named`, `ended` |
 * | `named` | a change names it, or its head, or the last event of its stream, waits for a verdict | ends `namedMs` later, whatever else names it meanwhile | `proven` or `stale` by facts of a later time, `ended` |
 * | `ended` | its right is lost, unproven, expired or ordered to end | its client was told, and is cut off `cutOffMs` later | nothing |
 *
 * A named exchange remembers whether it was stale, since facts may be newer than the change that names it, and older than
 * the policy. The second is its place in the queue that reads facts:
 *
 *     none ──▶ stale ──▶ facts ── judged, or unread ──▶ none
 *      ╰─────▶ named ──▶ ╯ ╰── named meanwhile ──▶ outdated-facts ── judged ──▶ named
 *
 * Unread facts leave it `none` also when it was named meanwhile: the next look finds it named. One that waits as `stale`
 * goes over to `named` when a change names it. Each place becomes `condemned` once a verdict is against it: its end comes at
 * most `spreadMs` later, and until then it keeps its standing.
 *
 * The third is its request: `permitted` until its head is written, `forwarded` until the head of the response is in, and
 * then `answered`. An answered one holds no user and no credential, since thousands are open for hours. If the client
 * leaves, or all is relayed, each state ends, and the exchange is in no list any more.
 *
 * Times are whole milliseconds of the monotonic clock.
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
  expiresAtMs: number | undefined
  /** The time at which facts were read that were judged last. Of a stale one, the last moment at which they are known to hold. */
  verifiedAtMs: number
  #standing = proven
  queue: QueuePlace = 'none'
  #progress: 'permitted' | 'forwarded' | 'answered' = 'permitted'
  #permit: Permit | undefined
  /** The last decision, while its decision points have not said yes. */
  #pending: Pending | undefined
  /** The count of heard changes from before the facts were read that decided last. */
  heard: number
  stream: Readonly<{ endAccess: (code: AccessEndCode, cause: unknown) => void }> | undefined
  #request: Cancellable | undefined

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
    if (caller && match.route.questions.length > 0) this.consultation = composeConsultation(match, caller)
    this.noteResource(match, caller?.resource)
  }

  get standing(): Standing {
    return this.#standing
  }

  get isNamed(): boolean {
    return this.#standing.kind === 'named'
  }

  /** Whether the facts must be read again, even if no change was missed since. */
  get isStale(): boolean {
    return this.#standing.kind === 'stale' || (this.#standing.kind === 'named' && this.#standing.isStale)
  }

  get end(): AccessEnd | undefined {
    return this.#standing.kind === 'ended' ? this.#standing.end : undefined
  }

  /** Only the first change counts until it is judged: a tenant may name its own exchanges without an end. */
  name(sinceMs: number): void {
    const { kind } = this.#standing
    if (kind === 'proven' || kind === 'stale') this.#standing = { kind: 'named', sinceMs, isStale: kind === 'stale' }
  }

  /** From now on no proof adds to the age of its facts, which are known to have held at `knownAtMs`. */
  markStale(knownAtMs: number): void {
    if (this.isStale || this.end) return
    this.verifiedAtMs = knownAtMs
    this.#standing = this.#standing.kind === 'named' ? { ...this.#standing, isStale: true } : stale
  }

  /** It was judged, and stays open. A change after those facts, or after that policy, is left to judge. */
  noteJudged(left: Readonly<{ isStale: boolean; namedSinceMs: number | undefined }>): void {
    if (this.#standing.kind === 'ended') return
    this.#standing = left.isStale ? stale : proven
    if (left.namedSinceMs !== undefined) this.name(left.namedSinceMs)
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
    if (this.#progress === 'answered') return
    this.#permit = permit
    this.#pending = undefined
  }

  keepPending(pending: Pending): void {
    if (this.#progress !== 'answered') this.#pending = pending
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

  noteForwarded(): void {
    this.#progress = 'forwarded'
  }

  /** Whether the head of the request was written, to one upstream at least. */
  get isForwarded(): boolean {
    return this.#progress !== 'permitted'
  }

  releasePermit(): void {
    this.#progress = 'answered'
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
    this.#standing = { kind: 'ended', atMs: nowMs, end }
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
