import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { JWK } from 'jose'
import type { Test } from 'tap'

/**
 * An issuer that publishes these keys by the path it is asked for, and calls each opaque token inactive; and what it was
 * asked.
 */
export async function startIssuer(t: Test, keysAt: (path: string) => readonly JWK[]) {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(String(request.url))
    response.end(JSON.stringify({ active: false, keys: keysAt(String(request.url)) }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.closeAllConnections())
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return { issuer: `http://127.0.0.1:${port}`, asked }
}
