import type { Engine } from '../engine.ts'
import { listen } from './listen.ts'
import { createSender } from './send.ts'

/** The second engine: TCP and llhttp on both sides, without what a general HTTP library does besides. */
export function createWireEngine(maxUpstreamConnections = Number.POSITIVE_INFINITY): Engine {
  const { send, countConnections, close } = createSender(maxUpstreamConnections)
  return { listen, send, countUpstreamConnections: countConnections, close }
}
