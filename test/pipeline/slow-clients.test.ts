import type { ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { openRawClient, openRoute, startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { modelRoutes, responsesPath } from '../support/streams.ts'
import { gatherThrong, type Throng } from '../support/throng.ts'

const timeouts = { headersMs: 1_000, bodyIdleMs: 1_000, clientIdleMs: 1_000 }

/** Each is judged by itself; a campaign has as many as an attacker. */
const many = process.env.CAMPAIGN ? 300 : 100
const deaf = process.env.CAMPAIGN ? 100 : 40

/** Node looks for late heads once a second, and the machine may be busy. */
const slackMs = 60_000

const event = `event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"${'x'.repeat(20_000)}"}\n\n`

/** More than the buffers of the system take. */
const large = Buffer.alloc(30_000_000, 'x')

/** Just under the limit of one event. */
const largeEvent = `event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"${'x'.repeat(16_000_000)}"}\n\n`

/** Answers uploads when they are whole, `/large` with much, and the model's paths with events without end. */
async function start(t: Test, limits: Readonly<Record<string, number>> = {}) {
  const open = new Set<ServerResponse>()
  const upstream = await startHttpUpstream(t, (request, response) => {
    open.add(response)
    response.on('close', () => open.delete(response))
    if (request.url?.startsWith('/agent/large/')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(largeEvent)
    } else if (request.url?.startsWith('/agent/')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const say = (): void => {
        while (!response.destroyed && response.write(event));
      }
      response.on('drain', say)
      say()
    } else if (request.url === '/large') {
      response.end(large)
    } else {
      request.resume().on('end', () => response.end('ok'))
    }
  })
  const gateway = await startTestGateway(t, {
    routes: [...modelRoutes, openRoute],
    upstreams: { platform: { url: upstream.url }, agents: { url: upstream.url } },
    settings: { timeouts, limits },
  })
  return { gateway, countAtUpstream: () => open.size, countSeen: () => upstream.ids().length }
}

type Gateway = Awaited<ReturnType<typeof start>>['gateway']

const readMetric = async ({ admin }: Gateway, name: string): Promise<number> => {
  const { text } = await call(admin, { path: '/metrics' })
  const lines = text.split('\n').filter((line) => line.startsWith(name))
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

/** Sends a little to each again and again, as long as they stand. */
function drip(t: Test, crowd: Throng, bytes: string): void {
  const timer = setInterval(() => {
    for (const socket of crowd.open()) socket.write(bytes)
  }, 200)
  t.teardown(() => clearInterval(timer))
}

/** Every attacker is cut in time, and other clients get answers meanwhile. */
async function checkCut(
  t: Test,
  { gateway, countAtUpstream }: Awaited<ReturnType<typeof start>>,
  isStanding: () => boolean | Promise<boolean>,
) {
  let answers = 0
  await until(
    async () => {
      t.equal((await call(gateway.public, { path: '/x' })).status, 200)
      answers += 1
      return !(await isStanding())
    },
    'that every attacker is cut',
    timeouts.headersMs + slackMs,
  )
  t.ok(answers > 3, `${answers} answers meanwhile`)
  await until(() => countAtUpstream() === 0, 'that the upstream is free')
  await until(async () => (await readMetric(gateway, 'sallyport_requests_in_flight')) === 0, 'the end of every request')
}

t.test(`${many} clients whose heads never end are cut, and answered 408`, async (t) => {
  const all = await start(t)
  const crowd = await gatherThrong(t, all.gateway.public, many)
  const first = await openRawClient(t, all.gateway.public)
  first.send('GET /x HTTP/1.1\r\nHost: h\r\n')
  for (const socket of crowd.sockets) socket.write('GET /x HTTP/1.1\r\nHost: h\r\n')
  drip(t, crowd, 'x-slow: y\r\n')
  await checkCut(t, all, () => crowd.open().length > 0)
  t.match(await first.closed(), /^HTTP\/1\.1 408 /)
})

t.test('a second head on a kept connection has no more time than the first', async (t) => {
  const { gateway } = await start(t)
  const client = await openRawClient(t, gateway.public)
  client.send('GET /x HTTP/1.1\r\nHost: h\r\n\r\n')
  await client.until(/ok$/)
  client.send('GET /x HTTP/1.1\r\nHost: h\r\n')
  t.match(await client.closed(), /ok[\s\S]*HTTP\/1\.1 408 /)
})

for (const [how, framing, piece] of [
  ['announced', 'Content-Length: 4096', 'a=b&'],
  ['chunked', 'Transfer-Encoding: chunked', '4\r\na=b&\r\n'],
] as const) {
  t.test(`${many} clients whose bodies only drip, ${how}, are cut, and set their upstreams free`, async (t) => {
    const all = await start(t)
    const crowd = await gatherThrong(t, all.gateway.public, many)
    const first = await openRawClient(t, all.gateway.public)
    first.send(`POST /x HTTP/1.1\r\nHost: h\r\n${framing}\r\n\r\n`)
    for (const socket of crowd.sockets) socket.write(`POST /x HTTP/1.1\r\nHost: h\r\n${framing}\r\n\r\n`)
    drip(t, crowd, piece)
    await checkCut(t, all, () => crowd.open().length > 0)
    t.match(await first.until(/408/), /^HTTP\/1\.1 408 /)
  })
}

/** Sends a body of 600 bytes in three seconds. */
async function sendSlowly(t: Test, gateway: Gateway): Promise<string> {
  const client = await openRawClient(t, gateway.public)
  client.send('POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 600\r\n\r\n')
  for (let count = 0; count < 15; count++) {
    client.send('x'.repeat(40))
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  return client.until(/\r\n\r\n./)
}

t.test('a body that is slow but steady passes, and one that is slower where no pace is asked for', async (t) => {
  const [steady, slower, tooSlow] = await Promise.all([
    start(t, { minBodyBytesPerSecond: 50 }),
    start(t, { minBodyBytesPerSecond: 0 }),
    start(t, { minBodyBytesPerSecond: 2_000 }),
  ])
  const answers = await Promise.all([steady, slower, tooSlow].map(({ gateway }) => sendSlowly(t, gateway)))
  t.match(answers[0], /^HTTP\/1\.1 200 /)
  t.match(answers[1], /^HTTP\/1\.1 200 /)
  t.match(answers[2], /^HTTP\/1\.1 408 /)
})

/** Connections that ask and then read nothing; whether the gateway still holds them it says itself. */
async function openDeaf(t: Test, gateway: Gateway, request: string, count: number): Promise<readonly Socket[]> {
  const { hostname, port } = new URL(gateway.public)
  return Promise.all(
    Array.from({ length: count }, async () => {
      const socket = connect(Number(port), hostname)
      t.teardown(() => socket.destroy())
      socket.on('error', () => {})
      socket.pause()
      socket.write(request)
      return socket
    }),
  )
}

for (const [what, request] of [
  ['an answer', 'GET /large HTTP/1.1\r\nHost: h\r\n\r\n'],
  ['an event stream', `POST ${responsesPath} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n`],
  ['answers in a row', 'GET /large HTTP/1.1\r\nHost: h\r\n\r\n'.repeat(3)],
] as const) {
  t.test(`${deaf} clients that never read ${what} are cut, and set their upstreams free`, async (t) => {
    const all = await start(t)
    await openDeaf(t, all.gateway, request, deaf)
    await until(() => all.countSeen() >= deaf, 'all of them at the upstream', 20_000)
    const stalled = 'sallyport_connections_dropped_total{listener="public",reason="stalled"}'
    await checkCut(t, all, async () => (await readMetric(all.gateway, stalled)) < deaf)
    t.equal(await readMetric(all.gateway, stalled), deaf)
  })
}

t.test('a client that is quick to send and never reads is cut anyway', async (t) => {
  const all = await start(t)
  const [socket] = await openDeaf(t, all.gateway, 'GET /large HTTP/1.1\r\nHost: h\r\n\r\n', 1)
  const timer = setInterval(() => socket?.write('x'), 100)
  t.teardown(() => clearInterval(timer))
  await until(() => all.countAtUpstream() === 1, 'it at the upstream')
  await until(() => all.countAtUpstream() === 0, 'the cut', timeouts.clientIdleMs + slackMs)
})

/** Reads so many bytes at a time, and then nothing for longer than the gateway looks away; resolves to how many came. */
async function readSlowly(
  socket: Socket | undefined,
  step: number,
  isWhole: (bytes: number) => boolean,
): Promise<number> {
  let bytes = 0
  let hasEnded = false
  socket?.on('data', (chunk) => {
    bytes += chunk.length
    if (Math.floor(bytes / step) === Math.floor((bytes - chunk.length) / step)) return
    socket.pause()
    setTimeout(() => socket.resume(), 300)
  })
  socket?.on('close', () => {
    hasEnded = true
  })
  socket?.resume()
  await until(() => hasEnded || isWhole(bytes), 'the end of the answer', 60_000)
  return bytes
}

for (const [what, request, size, step] of [
  ['an answer', 'GET /large HTTP/1.1\r\nHost: h\r\n\r\n', large.length, 2_000_000],
  // It is written at once: what shows that the client reads is only in the socket.
  ['one large event', 'POST /agent/large/responses HTTP/1.1\r\nHost: h\r\n\r\n', largeEvent.length, 1_000_000],
] as const) {
  t.test(`a client that reads ${what} slowly, but reads, gets every byte`, async (t) => {
    const { gateway } = await start(t)
    const [socket] = await openDeaf(t, gateway, request, 1)
    const startedMs = performance.now()
    const bytes = await readSlowly(socket, step, (read) => read >= size)
    t.ok(performance.now() - startedMs > 3 * timeouts.clientIdleMs, 'it took its time')
    t.ok(bytes >= size, `${bytes} bytes`)
  })
}
