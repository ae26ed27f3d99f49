import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { countHeads, startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { populate } from '../support/population.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { writer } = await populate(t, world)
const member = oauth(world.users.member)

t.test('a text that is not an address or block is a mistake of the configuration', async (t) => {
  for (const block of ['localhost', '10.0.0.0/33', '::/129', '10.0.0.0/8/8', '10.0.0.0/', 'fe80::1%lo', ''])
    for (const key of ['allow', 'deny'])
      await t.rejects(
        startTestGateway(t, { settings: { cluster: { networks: { [key]: [block] } } } }),
        /cluster/,
        block,
      )
})

const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi'
const startHere = (t: Test) =>
  startRawUpstream(t, (socket, soFar) => void (soFar.endsWith('\r\n\r\n') && socket.write(ok)))

/** Asks for a new cluster at this address. */
async function askAt(origin: string, baseUrl: string) {
  const { rows } = await writer.query(
    `insert into clusters (organization_id, name, slug, base_url, status, last_heartbeat_at)
     values ($1, $2, $2, $3, 'active', now()) returning id`,
    [world.organizations.acme.id, randomUUID(), baseUrl],
  )
  return call(origin, { path: `/clusters/${rows[0]?.id}/proxy/x`, headers: member })
}

t.test('a cluster that says it is at the gateway’s own machine is unreachable, and nothing is sent', async (t) => {
  const here = await startHere(t)
  const { port } = new URL(here.url)
  const settings = { cluster: { networks: {} } }
  const gateway = await startTestGateway(t, { world, settings, upstreams: { platform: { url: here.url } } })
  // A kept connection of a configured upstream to that very origin.
  t.equal((await call(gateway.public, { path: '/public/x', headers: member })).status, 200)
  t.equal(here.sockets().length, 1)
  const spellings = [
    '127.0.0.1',
    'localhost',
    '0x7f.1',
    '2130706433',
    '0177.0.0.1',
    '127.1',
    '[::ffff:127.0.0.1]',
    '[::1]',
  ]
  for (const host of spellings) {
    const answer = await askAt(gateway.public, `http://${host}:${port}`)
    t.equal(answer.status, 503, host)
    t.match(answer.text, /"upstream_unavailable"/, host)
  }
  t.equal(here.sockets().length, 1)
  t.equal(countHeads(here.received().join('')), 1, 'the cluster’s requests rode on no connection of another upstream')
})

t.test('a cluster at a listener of the gateway gets nothing, where loopback is allowed too', async (t) => {
  const gateway = await startTestGateway(t, { world })
  for (const listener of [
    gateway.admin,
    gateway.decision,
    gateway.public,
    gateway.admin.replace('127.0.0.1', 'localhost'),
  ]) {
    const answer = await askAt(gateway.public, listener)
    t.same([answer.status, answer.json().error?.code], [503, 'upstream_unavailable'], listener)
  }
  const here = await startHere(t)
  t.equal((await askAt(gateway.public, here.url)).status, 200, 'another port of loopback, which is allowed')
})
