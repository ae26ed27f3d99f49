import { type Engine, type Send, UpstreamError, type UpstreamResult, usualDnsCacheMs } from './engine.ts'
import { MemoryBudget } from './memory-budget.ts'
import { listen } from './server/listen.ts'
import { createDnsCache, type DnsCache } from './upstream/dns-cache.ts'
import { createPool } from './upstream/pool.ts'

export function createEngine(
  maxUpstreamConnections = Number.POSITIVE_INFINITY,
  names: DnsCache = createDnsCache({ cacheMs: usualDnsCacheMs }),
  heldBytesLimit = Number.POSITIVE_INFINITY,
  clusterNames: DnsCache = names,
): Engine {
  const memory = new MemoryBudget(heldBytesLimit)
  const { send, countConnections, close } = createSender(maxUpstreamConnections, names, clusterNames)
  return {
    listen: (options, handle) => listen(options, handle, memory),
    send,
    readHeldMemory: () => ({ bytes: memory.heldBytes, throttledConnections: memory.countThrottled() }),
    countUpstreamConnections: countConnections,
    close,
  }
}

type Sender = Readonly<{
  send: Send
  countConnections: () => ReadonlyMap<string, number>
  close: () => Promise<void>
}>

function createSender(maxConnections: number, names: DnsCache, clusterNames: DnsCache): Sender {
  const pool = createPool(maxConnections, names, clusterNames)
  const send: Send = (request) =>
    new Promise<UpstreamResult>((resolve, reject) => {
      const needs = { isFresh: request.isFreshConnection, isForUpgrade: request.asksForWebSocket }
      const connection = pool.acquire(request, needs)
      if (connection) connection.begin(request, { resolve, reject })
      else reject(new UpstreamError('pool-exhausted'))
    })
  return { send, countConnections: pool.count, close: pool.close }
}
