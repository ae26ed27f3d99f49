import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Below the ports that systems give to outgoing connections, from 32768 on with Linux and from 49152 elsewhere: one of those
 * may be somebody's before its finder listens.
 */
const firstPort = 20_000
const portCount = 12_000

const attempts = 100

/** A port of 127.0.0.1 that nobody listens on at this moment, and that nobody gets who does not ask for it. */
export async function findFreePort(): Promise<number> {
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const port = firstPort + randomInt(portCount)
    if (await isPortFree(port)) return port
  }
  throw new Error(`none of ${attempts} ports from ${firstPort} on is free`)
}

/** Whether we could listen on that port of 127.0.0.1 now. */
export async function isPortFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE') return false
    throw cause
  }
  server.close()
  await once(server, 'close')
  return true
}
