import type { UpstreamResponse } from '../engine/engine.ts'
import type { Exchange, RawHeaders, ResponseHead, ResponseWriter } from '../engine/exchange.ts'

export type Relay = (response: UpstreamResponse, exchange: Exchange) => void

/** Lines about the upstream's connection, not about its answer (RFC 9110 7.6.1). */
const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Passes an upstream's answer on as it comes, at the pace of the slower side. */
export function relay(response: UpstreamResponse, exchange: Exchange): void {
  const { status, reason } = response
  const writer = startAnswer(response, exchange, { status, reason, headers: withoutHopByHop(response.headers) })
  writer.onDrain(response.resume)
  response.pipe({
    data: writer.write,
    end: writer.end,
    // A truncated answer must stay recognizable: no terminating chunk, no filled-up length.
    fail: () => exchange.destroy(),
  })
}

/** A head that the engine refuses to write must not leave the upstream's body waiting for a reader. */
function startAnswer(response: UpstreamResponse, exchange: Exchange, head: ResponseHead): ResponseWriter {
  try {
    return exchange.start(head)
  } catch (error) {
    response.abort()
    throw error
  }
}

function withoutHopByHop(headers: RawHeaders): RawHeaders {
  const named = connectionNames(headers)
  const passing: string[] = []
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] ?? ''
    const lower = name.toLowerCase()
    if (!hopByHop.has(lower) && !named.has(lower)) passing.push(name, headers[index + 1] ?? '')
  }
  return passing
}

function connectionNames(headers: RawHeaders): ReadonlySet<string> {
  const names = new Set<string>()
  for (let index = 0; index < headers.length; index += 2)
    if (headers[index]?.toLowerCase() === 'connection')
      for (const name of (headers[index + 1] ?? '').split(',')) names.add(name.trim().toLowerCase())
  return names
}
