import { GatewayError } from '../../../base/errors/gateway-error.ts'
import type { MalformedRequest } from '../../../http/engine.ts'
import type { AuditedListener } from '../../../observe/audit/line.ts'
import type { EndedRequest } from '../../../observe/request-record.ts'
import { type CallerReading, Callers, mergeCallers } from './callers.ts'
import { mergeRequests, type RecentRequest, RecentRequests, type RequestFilter } from './recent-requests.ts'
import { firstSlotOf, type SlotRange, slotAt, slotMs } from './slot-ring.ts'
import { isServerFailure, mergeTraffic, Traffic, type TrafficReading, type UpstreamTraffic } from './traffic.ts'

export type HistoryQuery = SlotRange & Readonly<{ filter: RequestFilter }>

export type HistoryReading = Readonly<{
  traffic: TrafficReading
  callers: readonly CallerReading[]
  requests: readonly RecentRequest[]
}>

export type RequestHistory = Readonly<{
  noteEnd: (request: EndedRequest) => void
  noteMalformed: (listener: AuditedListener, request: MalformedRequest) => void
  noteDropped: (reason: string) => void
  upstream: (name: string) => UpstreamTraffic
  noteLatency: (route: string, ms: number) => void
  noteSlow: (call: SlowCall) => void
  read: (query: HistoryQuery) => HistoryReading
}>

export type SlowCall = Omit<RecentRequest, 'kind' | 'timeMs' | 'reason' | 'cause' | 'tokenId' | 'listener'>

/** The verdict "is slow" on the console asks for the same second. */
export const slowMs = 1_000

const slowReason = 'slow_upstream'

const noRoute = 'none'

export function createHistory(epochMs: () => number): RequestHistory {
  const traffic = new Traffic()
  const callers = new Callers()
  const recent = new RecentRequests()
  return {
    noteEnd: (request) => noteEnd(request, epochMs(), { traffic, callers, recent }),
    noteMalformed: (listener, { code, requestId, peerAddress, isBody }) => {
      if (isBody) return
      const timeMs = epochMs()
      const slot = slotAt(timeMs)
      traffic.countRequest(slot, noRoute)
      traffic.countRefused(slot, noRoute, code)
      callers.count(timeMs, peerAddress, true, false)
      const error = new GatewayError(code)
      const outcome = { kind: 'refusal', timeMs, reason: error.code, cause: code, status: error.status } as const
      const request = { ...unknownRequest, ...outcome, requestId, listener, clientAddress: peerAddress }
      if (recent.wants(request)) recent.remember(request)
    },
    noteDropped: (reason) => traffic.countDropped(slotAt(epochMs()), reason),
    upstream: (name) => traffic.upstream(name),
    noteLatency: (route, ms) => traffic.observeLatency(slotAt(epochMs()), route, ms),
    noteSlow: (call) => {
      const outcome = { kind: 'slow', timeMs: epochMs(), reason: slowReason, cause: slowReason } as const
      recent.remember({ ...call, ...outcome, tokenId: undefined, listener: 'public' })
    },
    read: (query) => ({
      traffic: traffic.read(query),
      callers: callers.read(firstSlotOf(query) * slotMs, query.toSlot * slotMs),
      requests: recent.read(query.filter),
    }),
  }
}

export const mergeHistories = (parts: readonly HistoryReading[]): HistoryReading => ({
  traffic: mergeTraffic(parts.map(({ traffic }) => traffic)),
  callers: mergeCallers(parts.map(({ callers }) => callers)),
  requests: mergeRequests(parts.map(({ requests }) => requests)),
})

type Stores = Readonly<{ traffic: Traffic; callers: Callers; recent: RecentRequests }>

function noteEnd(request: EndedRequest, timeMs: number, { traffic, callers, recent }: Stores): void {
  const { facts, exchange, durationMs, isComplete } = request
  const slot = slotAt(timeMs)
  const route = facts.route ?? noRoute
  const status = facts.error?.status ?? exchange.status
  const isFailed = facts.streamFailure !== undefined || isServerFailure(status)
  const isRefused = !isFailed && facts.error !== undefined
  traffic.countRequest(slot, route)
  // Forwarded requests are measured by their first byte: a stream lasts as long as its client wants.
  if (facts.upstream === undefined && isComplete) traffic.observeLatency(slot, route, durationMs)
  callers.count(timeMs, facts.userId ?? facts.clientAddress ?? exchange.peerAddress, isRefused, isFailed)
  if (!isFailed && !isRefused) return
  const reason = facts.streamFailure?.code ?? facts.error?.code ?? `upstream_${status}`
  const cause = facts.streamFailure?.code ?? facts.error?.exactCause ?? reason
  if (isFailed) traffic.countFailed(slot, route, cause)
  else traffic.countRefused(slot, route, cause)
  const kind = isFailed ? 'failure' : 'refusal'
  const clientAddress = facts.clientAddress ?? exchange.peerAddress
  if (recent.wants({ kind, cause, route: facts.route, timeMs, clientAddress }))
    recent.remember(describeEnd(request, { kind, timeMs, status, reason, cause, clientAddress }))
}

const unknownRequest = {
  method: undefined,
  path: undefined,
  route: undefined,
  upstream: undefined,
  userId: undefined,
  organizationId: undefined,
  durationMs: undefined,
  tokenId: undefined,
}

const describeEnd = (
  { requestId, listener, facts, decision, durationMs }: EndedRequest,
  outcome: Pick<RecentRequest, 'kind' | 'timeMs' | 'status' | 'reason' | 'cause' | 'clientAddress'>,
): RecentRequest => ({
  ...outcome,
  requestId,
  listener,
  method: decision?.method ?? facts.method,
  path: decision?.path ?? facts.path,
  route: facts.route,
  upstream: facts.upstream,
  upstreamPath: facts.upstreamPath,
  userId: facts.userId,
  organizationId: facts.organizationId,
  tokenId: facts.error?.details.tokenId,
  durationMs,
})
