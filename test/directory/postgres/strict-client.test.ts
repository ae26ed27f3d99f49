import t from 'tap'
import { openDatabase } from '../../../gateway/directory/postgres/pool.ts'
import { startRawUpstream, until } from '../../support/gateway.ts'

const ping = { name: 'ping', text: 'select 1' }

/** Answers that are not of the protocol, of a server that does not hang up (PostgreSQL's documentation, 54.7). */
const answers = {
  'a message of no known type': 'ff00000008ffffffff',
  'an authentication of no known kind': '5200000008000000ff',
  'a row that is shorter than it says': '5400000006ffff',
}

for (const [name, answer] of Object.entries(answers))
  t.test(`${name} ends the connection`, async (t) => {
    const server = await startRawUpstream(t, (socket) => socket.write(Buffer.from(answer, 'hex')))
    const { port } = new URL(server.url)
    const timeouts = { connectTimeoutMs: 60_000, queryTimeoutMs: 60_000 }
    const settings = { url: `postgres://a:b@127.0.0.1:${port}/c`, pooler: 'none', poolSize: 2, ...timeouts } as const
    const database = openDatabase(settings, () => undefined)
    t.teardown(() => database.close())
    for (let count = 0; count < 5; count += 1)
      await t.rejects(database.query(ping, []), { code: 'directory_unavailable' })
    t.equal(server.sockets().length, 5)
    const areOver = () => server.sockets().every(({ readableEnded, destroyed }) => readableEnded || destroyed)
    await until(areOver, 'the end of each')
    t.equal(database.countConnections().open, 0)
  })
