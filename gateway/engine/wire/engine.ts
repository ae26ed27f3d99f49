import { type Engine, usualDnsCacheMs } from '../engine.ts'
import { createNames, type Names } from '../names.ts'
import { listen } from './listen.ts'
import { createSender } from './send.ts'

/** The second engine: TCP and llhttp on both sides, without what a general HTTP library does besides. */
export function createWireEngine(
  maxUpstreamConnections = Number.POSITIVE_INFINITY,
  names: Names = createNames({ cacheMs: usualDnsCacheMs }),
): Engine {
  const { send, countConnections, close } = createSender(maxUpstreamConnections, names)
  return { listen, send, countUpstreamConnections: countConnections, close }
}
