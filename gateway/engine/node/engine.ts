import { type Engine, usualDnsCacheMs } from '../engine.ts'
import { createNames, type Names } from '../names.ts'
import { createSender } from './send.ts'
import { listen } from './server.ts'

/** The engine of record: node:http towards clients, undici towards upstreams. */
export function createNodeEngine(
  maxUpstreamConnections = Number.POSITIVE_INFINITY,
  names: Names = createNames({ cacheMs: usualDnsCacheMs }),
): Engine {
  const { send, countConnections, close } = createSender(maxUpstreamConnections, names)
  return { listen, send, countUpstreamConnections: countConnections, close }
}
