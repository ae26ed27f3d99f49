import { type Engine, type Send, type Surplus, UpstreamError, type UpstreamResult, usualDnsCacheMs } from './engine.ts'
import { MemoryBudget } from './memory-budget.ts'
import { listen } from './server/listen.ts'
import { readTurns } from './socket/read-turns.ts'
import { createDnsCache, type DnsCache } from './upstream/dns-cache.ts'
import { ConnectionPool } from './upstream/pool.ts'
import { DistrustedOrigins } from './upstream/surplus.ts'

export type EngineOptions = Readonly<{
  maxUpstreamConnections?: number
  names?: DnsCache
  clusterNames?: DnsCache
  heldBytesLimit?: number
  onSurplus?: (surplus: Surplus) => void
  monotonicMs?: () => number
}>

export function createEngine({
  maxUpstreamConnections = Number.POSITIVE_INFINITY,
  names = createDnsCache({ cacheMs: usualDnsCacheMs }),
  clusterNames = names,
  heldBytesLimit = Number.POSITIVE_INFINITY,
  onSurplus = () => undefined,
  monotonicMs = () => performance.now(),
}: EngineOptions = {}): Engine {
  const memory = new MemoryBudget(heldBytesLimit)
  const distrusted = new DistrustedOrigins(onSurplus, monotonicMs)
  const pool = new ConnectionPool({
    limit: maxUpstreamConnections,
    dns: names,
    clusterDns: clusterNames,
    distrusted,
    monotonicMs,
  })
  return {
    listen: (options, handle) => listen(options, handle, memory),
    send: createSend(pool),
    readHeldMemory: () => ({
      bytes: memory.heldBytes,
      throttledConnections: memory.countThrottled(),
      heldReads: readTurns.heldReads,
    }),
    countUpstreamConnections: () => pool.count(),
    countDistrustedOrigins: () => distrusted.size,
    close: () => pool.close(),
  }
}

const createSend =
  (pool: ConnectionPool): Send =>
  (request) =>
    new Promise<UpstreamResult>((resolve, reject) => {
      const connection = pool.acquire(request)
      if (connection) connection.begin(request, { resolve, reject })
      else reject(new UpstreamError('pool-exhausted'))
    })
