import type { UpstreamUpgrade } from '../../http/engine.ts'
import type { Exchange } from '../../http/exchange.ts'
import type { Upstream } from '../locate/upstream.ts'
import { type AnswerContext, passingLines } from './answer-headers.ts'

export type TunnelContext = AnswerContext & Readonly<{ upstream: Pick<Upstream, 'timeouts'> }>

export type OpenTunnel = (upgrade: UpstreamUpgrade, exchange: Exchange, context: TunnelContext) => void

export function tunnel({ headers, connection }: UpstreamUpgrade, exchange: Exchange, context: TunnelContext): void {
  try {
    exchange.tunnel(passingLines(101, headers, context), connection, context.upstream.timeouts.streamIdleMs)
  } catch (error) {
    connection.destroy()
    throw error
  }
}
