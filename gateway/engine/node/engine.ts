import type { Engine } from '../engine.ts'
import { createSender } from './send.ts'
import { listen } from './server.ts'

/** The engine of record: node:http towards clients, undici towards upstreams. */
export function createNodeEngine(): Engine {
  const { send, close } = createSender()
  return { listen, send, close }
}
