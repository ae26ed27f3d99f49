import type { Log } from './log/log.ts'
import type { ConnectionMetrics } from './metrics/connections.ts'

/** A proxy is mended in hours, and the metric counts each request meanwhile. */
const warnEveryMs = 3_600_000

/** Trusted proxies alone are remembered, so more of them than this are pods of one kind, whose warnings say the same. */
const rememberedPeers = 256

type ChainWarningDependencies = Readonly<{
  log: Pick<Log, 'warn'>
  metrics: Pick<ConnectionMetrics, 'countUnreadableChain'>
  monotonicMs: () => number
}>

export type NoteUnreadableChain = (peer: string, proxy: string) => void

/** Counts each chain that an unreadable item ended, and warns once for each peer and hour. */
export function createChainWarnings({ log, metrics, monotonicMs }: ChainWarningDependencies): NoteUnreadableChain {
  /** The time of the last warning by peer, the oldest first. */
  const warned = new Map<string, number>()
  return (peer, proxy) => {
    metrics.countUnreadableChain()
    const nowMs = monotonicMs()
    for (const [old, warnedMs] of warned) {
      if (nowMs - warnedMs < warnEveryMs) break
      warned.delete(old)
    }
    if (warned.has(peer) || warned.size >= rememberedPeers) return
    warned.set(peer, nowMs)
    log.warn({ peer, proxy }, 'x-forwarded-for unreadable')
  }
}
