import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Below the ephemeral ports, from 32768 on Linux and from 49152 elsewhere. The system could give one of those to
 * another process before the caller listens.
 */
const firstPort = 20_000
const portCount = 12_000

const attempts = 100

export async function findFreePort(): Promise<number> {
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const port = firstPort + randomInt(portCount)
    if (await isPortFree(port)) return port
  }
  throw new Error(`none of ${attempts} ports from ${firstPort} on is free`)
}

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
