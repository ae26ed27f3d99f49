import type { Engine } from '../engine.ts'
import { createSender } from './send.ts'
import { listen } from './server.ts'

/** The engine of record: node:http towards clients, undici towards upstreams. */
export function createNodeEngine(maxUpstreamConnections = Number.POSITIVE_INFINITY): Engine {
  const { send, countConnections, close } = createSender(maxUpstreamConnections)
  return { listen, send, countUpstreamConnections: countConnections, close }
}
