import { type RequestHistory, type SlowCall, slowMs } from '../admin/history/history.ts'
import type { Permit } from '../authorize/decide.ts'
import type { Configuration } from '../configuration/configuration.ts'
import { GatewayError, type RefusalCode } from '../errors/gateway-error.ts'
import type { Forward, Received } from '../forward/forward.ts'
import { type Send, UpstreamError } from '../http/engine.ts'
import type { RawHeaders } from '../http/exchange.ts'
import type { Upstream } from '../locate/upstream.ts'
import type { ProcessLog } from '../observe/log/log.ts'
import type { Metrics } from '../observe/metrics/metrics.ts'
import type { Tracing } from '../observe/tracing/tracing.ts'

/** Times every call of an upstream until its head is in, and counts what became of it. */
export const timeForward =
  (forward: Forward, metrics: Metrics, history: RequestHistory, monotonicMs: () => number): Forward =>
  (permit, upstream, pinned, received) => {
    const watch = metrics.watchUpstream(upstream.name)
    const calls = history.upstream(upstream.name)
    const startedMs = monotonicMs()
    calls.begin(Date.now())
    return forward(permit, upstream, pinned, received).then(
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
        if (outcome === 'client_disconnected') calls.abandoned()
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
  userId: caller?.principal.user.id,
  organizationId: caller?.organization?.id,
  clientAddress: client.address,
})

/** A client that left is no failure of its upstream, though the call ends like one. */
function nameOutcome(error: unknown): RefusalCode | 'client_disconnected' {
  const { code, cause } = GatewayError.from(error)
  return cause instanceof UpstreamError && cause.fault === 'cancelled' ? 'client_disconnected' : code
}

/** What asks for a fresh connection has been sent before. */
export const countRetries =
  (send: Send, metrics: Metrics, log: ProcessLog): Send =>
  (request) => {
    if (request.isFreshConnection) {
      metrics.countUpstreamRetry()
      log.debug({ origin: request.origin }, 'sent once more: nothing came of the first try')
    }
    return send(request)
  }

/** Clusters stand in the database, as many as there are: all of them are one upstream in the metrics. */
export const clusterUpstream = 'cluster'

/** The connections by the origins of the configuration; what goes elsewhere goes to clusters. */
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

/** Makes each call of an upstream a span, and tells the upstream of it. */
export const traceForward =
  (forward: Forward, tracing: Tracing): Forward =>
  async (permit, upstream, pinned, received) => {
    const { method } = permit.match.target
    const call = tracing.beginCall(received.exchange, { method, upstream })
    if (!call) return forward(permit, upstream, pinned, received)
    try {
      const answer = await forward(permit, upstream, pinned, withTrace(received, call.headers))
      call.answered('connection' in answer ? 101 : answer.status)
      return answer
    } catch (error) {
      call.failed(GatewayError.from(error).code)
      throw error
    }
  }

const traceNames = ['traceparent', 'tracestate']

/** The client's parent is ours now, and the upstream's is the call. */
function withTrace(received: Received, trace: RawHeaders): Received {
  const { passing } = received.headers
  const others = passing.filter((_, index) => !traceNames.includes(passing[index - (index % 2)]?.toLowerCase() ?? ''))
  return { ...received, headers: { ...received.headers, passing: [...others, ...trace] } }
}
