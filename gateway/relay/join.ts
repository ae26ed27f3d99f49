import type { UpstreamUpgrade } from '../engine/engine.ts'
import type { Exchange } from '../engine/exchange.ts'
import type { Upstream } from '../locate/upstream.ts'
import { withoutHeader, withoutHopByHop } from './answer-headers.ts'

export type Join = (upgrade: UpstreamUpgrade, exchange: Exchange, upstream: Upstream) => void

/** Passes an upstream's 101 on; from then on the two connections are one, whose bytes we do not read. */
export function join({ headers, connection }: UpstreamUpgrade, exchange: Exchange, { timeouts }: Upstream): void {
  try {
    // RFC 9110 8.6: a 101 has no length.
    exchange.join(withoutHeader(withoutHopByHop(headers), 'content-length'), connection, timeouts.streamIdleMs)
  } catch (error) {
    connection.destroy()
    throw error
  }
}
