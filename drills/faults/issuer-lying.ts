import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Drill } from '../drill.ts'
import { readKeysUrl } from '../fixture.ts'

/** Answers with 200 but without a key set. An empty set would be one: it withdraws every key. */
const lies: readonly string[] = ['<html>Sign in</html>', '{"keys":{}}', 'null', '{"keys":[', '']

export const drill: Drill = {
  about: 'the issuer answers with 200 and without a key set',
  cells: [['issuer', 'lies']],
  alerts: ['SallyportIssuerDown'],
  prepare: async ({ owner, world, notes }) => {
    const { issuer, audience } = world.oidc
    const keys = await (await fetch(await readKeysUrl(issuer))).text()
    let count = 0
    const server = createServer((_request, response) => {
      const lie = lies[count++ % lies.length] ?? ''
      response.setHeader('content-type', 'application/json').end(notes.has('lying') ? lie : keys)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    owner.teardown(() => {
      server.close()
      server.closeAllConnections()
    })
    const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
    const issuers = [{ issuer, audience, jwksUri: `http://127.0.0.1:${port}` }]
    return { settings: { issuers, jwks: { refreshMs: 1_000 } } }
  },
  begin: ({ notes }) => notes.set('lying', true),
  end: ({ notes }) => notes.delete('lying'),
}
