import { createDnsCache, type DnsCache } from '../dns-cache.ts'
import { type Engine, usualDnsCacheMs } from '../engine.ts'
import { MemoryBudget } from '../memory-budget.ts'
import { listen } from './listen.ts'
import { createSender } from './send.ts'

/** TCP and llhttp on both sides, without what a general HTTP library does besides. */
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
    readHeldMemory: () => ({ bytes: memory.heldBytes, squeezedConnections: memory.countSqueezed() }),
    countUpstreamConnections: countConnections,
    close,
  }
}
