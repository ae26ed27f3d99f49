import type { UpstreamUpgrade } from '../http/engine.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Upstream } from '../locate/upstream.ts'
import { type AnswerContext, passingLines } from './answer-headers.ts'

export type JoinContext = AnswerContext & Readonly<{ upstream: Pick<Upstream, 'timeouts'> }>

export type Join = (upgrade: UpstreamUpgrade, exchange: Exchange, context: JoinContext) => void

/** Passes an upstream's 101 on; from then on the two connections are one, whose bytes we do not read. */
export function join({ headers, connection }: UpstreamUpgrade, exchange: Exchange, context: JoinContext): void {
  try {
    exchange.join(passingLines(101, headers, context), connection, context.upstream.timeouts.streamIdleMs)
  } catch (error) {
    connection.destroy()
    throw error
  }
}
