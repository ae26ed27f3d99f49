import t, { type Test } from 'tap'
import { divideCost } from '../../bench/measure-streams.ts'
import { call } from '../support/client.ts'
import { leave, openCrowd } from '../support/crowd.ts'
import { startCrowdUpstream } from '../support/crowd-upstream.ts'
import { createdEvent } from '../support/event-streams.ts'
import { openRawClient, startRawUpstream, until } from '../support/gateway.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { countStrings, findMeasureLack, measurable, readSettledFigures } from '../support/process-figures.ts'
import { startReplica } from '../support/replicas.ts'
import { chunkedHead, toChunk } from '../support/streams.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const count = process.env.CAMPAIGN ? 5_000 : 2_000

const world = await startTestWorld(t)
const responses = `/agent/${world.agents.acme}/responses`

// A slice of a head, as an id or a host is, keeps the whole head alive, and the credential in it.
t.test('an open stream keeps neither the head of its request nor that of its response', async (t) => {
  const marked = chunkedHead.replace('\r\n', '\r\nx-request-id: upstream-id-0123456789\r\nx-kind: kept-answer\r\n')
  const raw = await startRawUpstream(t, (socket) => {
    socket.write(marked)
    socket.write(toChunk(createdEvent))
  })
  const upstreams = Object.fromEntries(['agents', 'platform'].map((name) => [name, { url: raw.url }]))
  const settings = { log: { level: 'warn' }, trustedProxies: ['127.0.0.1'] }
  const replica = await startReplica(t, { world, upstreams, settings }, measurable)
  const open = async (line: string, headers: Readonly<Record<string, string>>): Promise<void> => {
    const all = { host: 'api.example.com', ...headers, 'x-forwarded-for': '203.0.113.195' }
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
    const client = await openRawClient(t, replica.public)
    client.socket.write(`${line} HTTP/1.1\r\nx-kind: kept-request\r\n${lines.join('')}\r\n`)
    await until(() => client.text().includes('response.created'), 'the first event')
  }
  for (let stream = 0; stream < 5; stream++) {
    await open('GET /datasets', oauth(world.users.member))
    await open(`POST ${responses}`, { ...bearer(world.serviceAccounts.robot.apiKey), 'content-length': '0' })
  }
  // Others follow: the engine itself remembers the text of the last search.
  for (let other = 0; other < 3; other++) await call(replica.public, { path: '/nowhere' })
  t.equal(await countStrings(replica, 'kept-request'), 0, 'heads of requests')
  t.equal(await countStrings(replica, 'kept-answer'), 0, 'heads of responses')
  t.ok((await countStrings(replica, 'api.example.com')) > 0, 'strings are found')
})

testUnlessLacking(
  t,
  `each of ${count} idle streams costs 16 KiB of heap and buffers at most`,
  testIdle,
  findMeasureLack(2 * count),
)

async function testIdle(t: Test): Promise<void> {
  const upstream = await startCrowdUpstream(t)
  const upstreams = { agents: { url: upstream.url } }
  const replica = await startReplica(t, { world, upstreams, settings: { log: { level: 'warn' } } }, measurable)
  const headers = bearer(world.serviceAccounts.robot.apiKey)
  const open = (count: number) => openCrowd(t, { origin: replica.public, path: responses, headers, count })

  // A few first: what it takes to serve streams at all is not theirs.
  leave(await open(200))
  await until(() => upstream.streams.size === 0, 'the end of the first streams', 20_000)
  const before = await readSettledFigures(replica)
  await open(count)
  t.equal(upstream.streams.size, count)
  const each = divideCost(before, await readSettledFigures(replica), count)
  t.comment(JSON.stringify(each))
  // Half a dozen closures more for each stream are seen. The pages that the process occupies are less steady.
  t.ok(each.heapBytes + each.externalBytes <= 16 * 1024, `${each.heapBytes} + ${each.externalBytes} bytes`)
}
