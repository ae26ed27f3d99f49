import { TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { openDatabase } from '../../../gateway/directory/postgres/pool.ts'
import { createAuthority, ownNames, testCertificates } from '../../support/certificates.ts'
import { type RawUpstream, startRawUpstream, until } from '../../support/gateway.ts'

const ping = { name: 'ping', text: 'select 1' }

/** Messages that break the protocol (PostgreSQL's documentation, 54.7), from a server that keeps the connection open. */
const answers = {
  'a message of no known type': 'ff00000008ffffffff',
  'an authentication of no known kind': '5200000008000000ff',
  'a row that is shorter than it says': '5400000006ffff',
}

async function checkEnds(t: Test, server: RawUpstream, search = ''): Promise<void> {
  const { port } = new URL(server.url)
  const timeouts = { connectTimeoutMs: 60_000, queryTimeoutMs: 60_000 }
  const url = `postgres://a:b@127.0.0.1:${port}/c${search}`
  const database = openDatabase({ url, pooler: 'none', poolSize: 2, ...timeouts }, () => undefined)
  t.teardown(() => database.close())
  for (let count = 0; count < 5; count += 1)
    await t.rejects(database.query(ping, []), { code: 'directory_unavailable' })
  t.equal(server.sockets().length, 5)
  const areOver = () => server.sockets().every(({ readableEnded, destroyed }) => readableEnded || destroyed)
  await until(areOver, 'the end of each')
  t.equal(database.countConnections().open, 0)
}

for (const [name, answer] of Object.entries(answers))
  t.test(`${name} ends the connection`, async (t) => {
    await checkEnds(t, await startRawUpstream(t, (socket) => socket.write(Buffer.from(answer, 'hex'))))
  })

testCertificates(t, 'malformed messages on TLS', async (t) => {
  const { cert, key } = createAuthority(t).issue(ownNames)
  for (const [name, answer] of Object.entries(answers))
    t.test(`${name} ends the connection`, async (t) => {
      let answered = 0
      const server = await startRawUpstream(t, (socket) => {
        socket.removeAllListeners('data')
        socket.write('S')
        const secure = new TLSSocket(socket, { isServer: true, cert, key })
        // While TLS reads from it, the socket below emits no end of its own.
        for (const end of ['end', 'close', 'error']) secure.on(end, () => socket.destroy())
        secure.once('data', () => {
          answered += 1
          secure.write(Buffer.from(answer, 'hex'))
        })
      })
      await checkEnds(t, server, '?sslmode=no-verify')
      t.equal(answered, 5, 'on TLS')
    })
})
