import type { RawHeaders } from '../engine/exchange.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import type { Forward, Received } from '../forward/forward.ts'
import type { Tracing } from '../observe/tracing/tracing.ts'

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
