// The backend of bench:slow-clients, in a process of its own, so that its work for attackers does not slow measured clients.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** More than the system's socket buffers hold. */
const large = Buffer.alloc(8 * 1024 * 1024, 'x')

/** Answers `/large` with 8 MiB, and every other path with `ok` once the request's body has arrived. */
const server = createServer((request, response) => {
  const isLarge = request.method === 'GET' && request.url?.startsWith('/large')
  request.resume().on('end', () => response.end(isLarge ? large : 'ok'))
}).listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  process.send?.(port)
})
process.on('disconnect', () => process.exit())
