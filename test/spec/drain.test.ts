import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { completedEvent, createdEvent, deltaEvent } from '../support/event-streams.ts'
import { countHeads, openRawClient, openRoute, startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { isWhole } from '../support/proxy.ts'
import { responsesPath, startStreamPair, streamHead } from '../support/streams.ts'

const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: h\r\n\r\n`

/** An upstream that answers at once, but `/held` only when the test says so. */
async function start(t: Test) {
  const answers: (() => void)[] = []
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    if (soFar.includes('/held')) answers.push(() => socket.write(ok))
    else if (isWhole(soFar)) socket.write(ok)
  })
  const gateway = await startTestGateway(t, { routes: [openRoute], upstreams: { platform: { url: upstream.url } } })
  const answerHeld = (): void => {
    for (const answer of answers) answer()
  }
  return { upstream, gateway, answerHeld, countHeld: () => answers.length }
}

const isRefused = (origin: string): Promise<boolean> =>
  call(origin, { path: '/after' }).then(
    () => false,
    ({ code }) => code === 'ECONNREFUSED',
  )

const readiness = async (admin: string): Promise<number> => (await call(admin, { path: '/readyz' })).status

t.test('during the delay of a drain connections are accepted, and kept ones stay open', async (t) => {
  const { gateway } = await start(t)
  const kept = await openRawClient(t, gateway.public)
  kept.send(get('/before'))
  await kept.until(/ok$/)
  const drained = gateway.drain({ delayMs: 4_000, timeoutMs: 20_000 })
  t.equal(await readiness(gateway.admin), 503)
  kept.send(get('/during'))
  t.match(await kept.until(/ok[\s\S]*ok$/), /\r\nconnection: keep-alive\r\n[\s\S]*\r\nconnection: keep-alive\r\n/i)
  t.equal((await call(gateway.public, { path: '/new' })).status, 200)
  await kept.closed()
  await drained
})

t.test(
  'after the delay neither listener accepts a connection, and a response under way is the last of its connection',
  async (t) => {
    const { upstream, gateway, answerHeld, countHeld } = await start(t)
    const client = await openRawClient(t, gateway.public)
    client.send(get('/held'))
    await until(() => countHeld() === 1, 'the request at the upstream')
    const drained = gateway.drain({ delayMs: 0, timeoutMs: 20_000 })
    await until(() => isRefused(gateway.public), 'the end of accepting')
    t.equal(await isRefused(gateway.decision), true)
    t.equal(await readiness(gateway.admin), 503, 'the admin listener still answers')
    client.send(get('/pipelined'))
    answerHeld()
    const text = await client.closed()
    t.match(text, /^HTTP\/1\.1 200 [\s\S]*\r\nconnection: close\r\n[\s\S]*ok$/i)
    t.equal(countHeads(text), 1, 'the pipelined request gets no response')
    t.notMatch(upstream.received().join(''), '/pipelined')
    await drained
  },
)

t.test('a request that has arrived in part when accepting ends is answered', async (t) => {
  const { upstream, gateway } = await start(t)
  const head = await openRawClient(t, gateway.public)
  head.send('GET /head HTTP/1.1\r\nHo')
  const body = await openRawClient(t, gateway.public)
  body.send('POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\n\r\nhalf')
  const waiting = await openRawClient(t, gateway.public)
  waiting.send('POST /waiting HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n')
  await waiting.until(/ 100 /)
  await until(() => upstream.received().join('').includes('half'), 'the half body at the upstream')
  const drained = gateway.drain({ delayMs: 0, timeoutMs: 20_000 })
  await until(() => isRefused(gateway.public), 'the end of accepting')
  head.send('st: h\r\n\r\n')
  body.send('more')
  waiting.send('body')
  for (const client of [head, body, waiting])
    t.match(await client.closed(), /HTTP\/1\.1 200 [\s\S]*\r\nconnection: close\r\n[\s\S]*ok$/i)
  await drained
})

t.test('a client that reads nothing of its stream delays the end of the drain by a second', async (t) => {
  const { gateway, upstream, open } = await startStreamPair(t)
  const answer = await open(responsesPath, (socket) => {
    socket.write(`${streamHead}\r\n${createdEvent}`)
    const more = deltaEvent(1).repeat(1_000)
    const flood = (): void => {
      if (!socket.destroyed) socket.write(more, () => setImmediate(flood))
    }
    flood()
  })
  answer.pause()
  const startedMs = performance.now()
  await gateway.drain({ delayMs: 0, timeoutMs: 200 })
  t.ok(performance.now() - startedMs < 10_000)
  await until(() => upstream.sockets().every(({ destroyed }) => destroyed), 'the release of the upstream')
})

t.test('a stream whose terminal event comes during the drain arrives whole', async (t) => {
  const { gateway, open } = await startStreamPair(t)
  const ends: (() => void)[] = []
  const answer = await open(responsesPath, (socket) => {
    socket.write(`${streamHead}\r\n${createdEvent}`)
    ends.push(() => socket.write(completedEvent))
  })
  const drained = gateway.drain({ delayMs: 0, timeoutMs: 500 })
  await until(() => isRefused(gateway.public), 'the end of accepting')
  for (const end of ends) end()
  t.equal((await answer.whole()).toString(), createdEvent + completedEvent, 'whole, though its upstream never ends it')
  await drained
})
