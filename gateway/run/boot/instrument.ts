import { GatewayError, type RefusalCode } from '../../base/errors/gateway-error.ts'
import type { Configuration } from '../../configuration/configuration.ts'
import { nameUser } from '../../directory/directory.ts'
import { type Send, type Surplus, UpstreamError } from '../../http/engine.ts'
import type { RawHeaders } from '../../http/exchange.ts'
import { type RequestHistory, type SlowCall, slowMs } from '../../listeners/admin/history/history.ts'
import type { ProcessLog } from '../../observe/log/log.ts'
import type { ObserveMs } from '../../observe/metrics/bound-histogram.ts'
import type { Metrics } from '../../observe/metrics/metrics.ts'
import type { Tracing } from '../../observe/tracing/tracing.ts'
import type { Permit } from '../../stages/authorize/decide.ts'
import type { Forward, Received } from '../../stages/forward/forward.ts'
import type { Upstream } from '../../stages/locate/upstream.ts'
import type { Pin } from '../../stages/pin/pin.ts'

export const timePin =
  (pin: Pin, observe: ObserveMs, monotonicMs: () => number): Pin =>
  (permit, upstream) => {
    const startedMs = monotonicMs()
    const pinned = pin(permit, upstream)
    if (pinned instanceof Promise) return pinned.finally(() => observe(monotonicMs() - startedMs))
    observe(monotonicMs() - startedMs)
    return pinned
  }

export const timeForward =
  (forward: Forward, metrics: Metrics, history: RequestHistory, monotonicMs: () => number): Forward =>
  (permit, upstream, prepare, received) => {
    const watch = metrics.watchUpstream(upstream.name)
    const calls = history.upstream(upstream.name)
    const startedMs = monotonicMs()
    calls.begin(Date.now())
    return forward(permit, upstream, prepare, received).then(
      (answer) => {
        const status = 'connection' in answer ? 101 : answer.status
        const ms = monotonicMs() - startedMs
        watch.answered(status, ms)
        calls.answered(status, ms, Date.now())
        history.noteLatency(permit.match.route.id, ms)
        if (ms >= slowMs) history.noteSlow(describeCall(permit, upstream, received, status, ms))
        return answer
      },
      (error) => {
        const outcome = nameOutcome(error)
        const ms = monotonicMs() - startedMs
        watch.failed(outcome)
        if (outcome === 'client_disconnected' || isOwnRefusal(error)) calls.abandoned()
        else {
          calls.failed(outcome, ms, Date.now())
          history.noteLatency(permit.match.route.id, ms)
        }
        throw error
      },
    )
  }

const describeCall = (
  { match, caller }: Permit,
  upstream: Upstream,
  { client, requestId }: Received,
  status: number,
  durationMs: number,
): SlowCall => ({
  status,
  durationMs,
  requestId,
  method: match.target.method,
  path: match.target.path,
  route: match.route.id,
  upstream: upstream.name,
  upstreamPath: upstream.rewrittenPath,
  userId: caller && nameUser(caller.principal.user),
  organizationId: caller?.organization?.id,
  clientAddress: client.address,
})

/** A client that leaves ends the call like an upstream's failure, but must not count as one. */
function nameOutcome(error: unknown): RefusalCode | 'client_disconnected' {
  const { code, cause } = GatewayError.from(error)
  return cause instanceof UpstreamError && cause.fault === 'cancelled' ? 'client_disconnected' : code
}

/** A refusal from before the head is written says nothing about the upstream. */
const isOwnRefusal = (error: unknown): boolean => !(GatewayError.from(error).cause instanceof UpstreamError)

export const countRetries =
  (send: Send, metrics: Metrics, log: ProcessLog): Send =>
  (request) => {
    if (request.isFreshConnection) {
      metrics.countUpstreamRetry()
      log.debug({ origin: request.origin }, 'request retried on a fresh connection')
    }
    return send(request)
  }

/** The number of clusters is unbounded, so the metrics count them as one upstream. */
export const clusterUpstream = 'cluster'

export function nameOrigins(
  { upstreams }: Configuration,
  count: () => ReadonlyMap<string, number>,
): () => ReadonlyMap<string, number> {
  const known = Object.values(upstreams).flatMap(({ urls }) => urls.map((url) => new URL(url).origin))
  return () => {
    const counts = new Map([...known, clusterUpstream].map((origin) => [origin, 0]))
    for (const [origin, open] of count()) {
      const name = counts.has(origin) ? origin : clusterUpstream
      counts.set(name, (counts.get(name) ?? 0) + open)
    }
    return counts
  }
}

/** One line when an origin is believed no more, since the metric counts each. */
export const reportSurplus =
  (log: ProcessLog, metrics: Metrics) =>
  ({ kind, origin, upstream, route, isFirst }: Surplus): void => {
    metrics.countSurplus(upstream, kind)
    if (isFirst) log.warn({ upstream, route, origin, kind }, 'upstream sent bytes beyond an answer')
  }

export const traceForward =
  (forward: Forward, tracing: Tracing): Forward =>
  async (permit, upstream, prepare, received) => {
    const { method } = permit.match.target
    const call = tracing.beginCall(received.exchange, { method, upstream })
    if (!call) return forward(permit, upstream, prepare, received)
    try {
      const answer = await forward(permit, upstream, prepare, withTrace(received, call.headers))
      call.answered('connection' in answer ? 101 : answer.status)
      return answer
    } catch (error) {
      call.failed(GatewayError.from(error).code)
      throw error
    }
  }

const traceNames = ['traceparent', 'tracestate']

function withTrace(received: Received, trace: RawHeaders): Received {
  const { passing } = received.headers
  const others = passing.filter((_, index) => !traceNames.includes(passing[index - (index % 2)]?.toLowerCase() ?? ''))
  return { ...received, headers: { ...received.headers, passing: [...others, ...trace] } }
}
