import { once } from 'node:events'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { openRoute, startRawUpstream, startTestGateway, type TestGateway, until } from '../support/gateway.ts'
import { startTestWorld } from '../support/world.ts'

/** All that may be held, of which half is for any connection to take. */
const limitBytes = 1024 * 1024

/** Cuts go down to 7/8 of the budget; a first read is of 16 KiB, chosen before the budget is short. */
const fitting = (limitBytes * 7) / 8 / (16 * 1024)

const settings = { limits: { heldBytes: limitBytes } }

const greedyAddress = '127.0.0.1'
const honestAddress = '127.0.0.2'

const get = (path: string, headers = ''): string => `GET ${path} HTTP/1.1\r\nHost: gateway.test\r\n${headers}\r\n`

type Way = (socket: Socket, soFar: string) => void

/** The upstream of each path. */
const ways: Readonly<Record<string, Way>> = {
  silent: () => undefined,
  deaf: (socket) => void socket.pause(),
  large: (socket) => void socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n${'x'.repeat(9_000_000)}`),
  head: (socket) => void socket.write(`HTTP/1.1 200 OK\r\nX-Long: ${'x'.repeat(40_000)}`),
  event: (socket) =>
    void socket.write(
      `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {"delta":"${'x'.repeat(400_000)}`,
    ),
  echo: (socket, soFar) => {
    const [head = '', body = ''] = soFar.split(/\r\n\r\n(.*)/s)
    const [, length = '0'] = /content-length: (\d+)/i.exec(head) ?? []
    if (body.length === Number(length))
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`)
  },
  events: (socket) => void socket.end(`HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n${wholeStream}`),
}

const wholeStream = `${'data: {"type":"response.output_text.delta","delta":"hello"}\n\n'.repeat(2_000)}data: {"type":"response.completed","response":{"id":"resp_1"}}\n\n`

/** An upstream that does as the last word of a request's path says. */
async function startUpstream(t: Test) {
  return startRawUpstream(t, (socket, soFar) => {
    const [, way = ''] = /^\w+ \/\S*?(\w+)(?:\?\S*)? HTTP/.exec(soFar) ?? []
    if (soFar.includes('\r\n\r\n')) ways[way]?.(socket, soFar)
  })
}

const streamRoutes = [
  { id: 'event', match: { path: '/stream/*' }, surface: 'model', access: 'public', upstream: 'platform' },
]

async function startPair(t: Test) {
  const upstream = await startUpstream(t)
  const routes = [...streamRoutes, openRoute]
  const gateway = await startTestGateway(t, { routes, settings, upstreams: { platform: { url: upstream.url } } })
  const endUpstreams = (): void => {
    for (const socket of upstream.sockets()) socket.destroy()
  }
  return { gateway, endUpstreams }
}

async function openFrom(t: Test, gateway: TestGateway, localAddress: string): Promise<Socket> {
  const { hostname, port } = new URL(gateway.public)
  const socket = connect({ host: hostname, port: Number(port), localAddress })
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  return socket
}

async function readMetric({ admin }: TestGateway, name: string): Promise<number> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  const line = text.split('\n').find((line) => line.startsWith(`${name} `))
  return Number(line?.split(' ')[1] ?? 0)
}

const readHeld = (gateway: TestGateway): Promise<number> => readMetric(gateway, 'sallyport_held_bytes')

/** A client that is not read from is seen to have left only when it is written to, by each of its requests. */
const untilFree = (gateway: TestGateway, endUpstreams: () => void): Promise<void> =>
  until(
    async () => {
      endUpstreams()
      return (await readHeld(gateway)) === 0
    },
    'nothing being held',
    60_000,
  )

const countCut = (gateway: TestGateway): Promise<number> =>
  readMetric(gateway, 'sallyport_connections_dropped_total{listener="public",reason="memory"}')

/** One request from the honest address; resolves to the whole body of its answer. */
async function askHonestly(gateway: TestGateway, path: string, body?: Buffer): Promise<string> {
  const method = body ? 'POST' : 'GET'
  const headers = body ? { 'content-length': body.length } : {}
  const asked = request(gateway.public + path, { method, headers, localAddress: honestAddress, agent: false })
  asked.end(body)
  const [answer] = await once(asked, 'response')
  let text = ''
  for await (const chunk of answer) text += chunk.toString('latin1')
  return text
}

/** Whole bodies and events pass, whatever else is held. */
async function checkHonest(t: Test, gateway: TestGateway): Promise<void> {
  const body = Buffer.alloc(3 * limitBytes, 'honest ')
  t.ok(
    (await askHonestly(gateway, '/echo', body)) === body.toString(),
    'a body larger than the budget comes back whole',
  )
  const stream = await askHonestly(gateway, '/stream/events')
  t.ok(stream === wholeStream, `so does a stream: ${stream.length} of ${wholeStream.length}, ${stream.slice(-100)}`)
}

t.test('a crowd of one address that fills what is read ahead is cut; another address is served', async (t) => {
  const { gateway, endUpstreams } = await startPair(t)
  const crowd = await Promise.all(Array.from({ length: 300 }, () => openFrom(t, gateway, greedyAddress)))
  let most = 0
  const watch = async (): Promise<void> => {
    most = Math.max(most, await readHeld(gateway))
  }
  for (const socket of crowd) {
    socket.write(get('/silent') + get('/silent').repeat(3_000))
    await watch()
  }
  await until(async () => (await countCut(gateway)) > 0, 'some being cut', 20_000)
  const cut = await countCut(gateway)
  t.ok(crowd.length - cut >= fitting, `as many wait as there is room for: ${cut} of ${crowd.length} were cut`)
  await checkHonest(t, gateway)
  await watch()
  t.ok(most > limitBytes / 2, `${most} bytes were held`)
  t.ok(most <= limitBytes, `${most} bytes were held`)
  for (const socket of crowd) socket.destroy()
  await untilFree(gateway, endUpstreams)
})

for (const [what, path, more] of [
  ['bodies that no upstream reads', '/deaf', 'Content-Length: 9000000\r\n'],
  ['answers that no client reads', '/large', ''],
  ['long heads whose request waits', '/silent', `X-Long: ${'x'.repeat(14_000)}\r\n`],
  ['heads of answers that have no end', '/head', ''],
] as const)
  t.test(`${what} of one address are bounded; another address is served`, async (t) => {
    const { gateway, endUpstreams } = await startPair(t)
    const crowd = await Promise.all(Array.from({ length: 100 }, () => openFrom(t, gateway, greedyAddress)))
    for (const socket of crowd) {
      socket.pause()
      socket.write(
        (path === '/deaf' ? get(path, more).replace('GET', 'POST') : get(path, more)) +
          'x'.repeat(path === '/deaf' ? 8_000_000 : 0),
      )
    }
    await until(async () => (await readHeld(gateway)) > limitBytes / 2, 'half of the budget being held', 20_000)
    await checkHonest(t, gateway)
    t.ok((await readHeld(gateway)) <= limitBytes)
    for (const socket of crowd) socket.destroy()
    await untilFree(gateway, endUpstreams)
  })

// A head may have 32 KiB, and each of its bytes waits for the end of the head.
for (const [what, pieces] of [
  ['at once', 1],
  ['in pieces', 31],
] as const)
  t.test(`half of a large head, sent ${what} by each of a crowd, is bounded; another address is served`, async (t) => {
    const { gateway, endUpstreams } = await startPair(t)
    const crowd = await Promise.all(Array.from({ length: 300 }, () => openFrom(t, gateway, greedyAddress)))
    let most = 0
    for (const socket of crowd) socket.write('GET /silent HTTP/1.1\r\nHost: gateway.test\r\n')
    for (let piece = 0; piece < pieces; piece += 1) {
      for (const socket of crowd)
        if (socket.writable) socket.write(`X-Part-${piece}: ${'x'.repeat(31_000 / pieces - 20)}\r\n`)
      most = Math.max(most, await readHeld(gateway))
    }
    await until(async () => (await countCut(gateway)) > 0, 'some being cut', 20_000)
    most = Math.max(most, await readHeld(gateway))
    t.ok(most > limitBytes / 2, `${most} bytes were held`)
    t.ok(most <= limitBytes, `${most} bytes were held`)
    await checkHonest(t, gateway)
    t.ok(
      crowd.some((socket) => !socket.closed),
      'as many stay as there is room for',
    )
    for (const socket of crowd) socket.destroy()
    await untilFree(gateway, endUpstreams)
  })

t.test('the streams with the largest unfinished events end, and say so', async (t) => {
  const { gateway, endUpstreams } = await startPair(t)
  const texts: string[] = []
  const sockets: Socket[] = []
  for (let index = 0; index < 4; index++) {
    const socket = await openFrom(t, gateway, greedyAddress)
    sockets.push(socket)
    texts.push('')
    socket.on('data', (chunk) => {
      texts[index] += chunk.toString('latin1')
    })
    socket.write(get('/stream/event'))
  }
  // A refusal before the head went out is an answer like any other.
  await until(
    () => texts.some((text) => text.includes('event_too_large') || text.startsWith('HTTP/1.1 503')),
    'an end',
    20_000,
  )
  t.ok((await readHeld(gateway)) <= limitBytes)
  await checkHonest(t, gateway)
  for (const socket of sockets) socket.destroy()
  await untilFree(gateway, endUpstreams)
})

t.test(
  'an organization that spreads over many addresses is the greediest, and another one is not cut for it',
  async (t) => {
    const world = await startTestWorld(t)
    const upstream = await startUpstream(t)
    const member = { match: { path: '/*' }, surface: 'platform', upstream: 'platform', require: { role: 'org-member' } }
    const gateway = await startTestGateway(t, {
      world,
      routes: [{ id: 'member', ...member }],
      settings: { ...settings, trustedProxies: ['127.0.0.0/8'] },
      upstreams: { platform: { url: upstream.url } },
    })
    const open = async (jwt: string, organizationId: number, address: string, aheadBytes: number): Promise<Socket> => {
      const socket = await openFrom(t, gateway, greedyAddress)
      const lines = `X-OAuth-Access-Token: ${jwt}\r\nX-Organization-Id: ${organizationId}\r\nX-Forwarded-For: ${address}\r\n`
      const received = upstream.received().length
      socket.write(get('/silent', lines))
      await until(() => upstream.received().length > received, 'the request', 20_000)
      socket.write('x'.repeat(aheadBytes))
      return socket
    }
    const { acme, globex } = world.organizations
    // The most of any one address, and far from its organization's part.
    const honest = await open(world.users.owner.jwt, globex.id, '192.0.2.1', 14_000)
    let hasClosed = false
    honest.on('close', () => {
      hasClosed = true
    })
    await until(async () => (await readHeld(gateway)) >= 14_000, 'its bytes', 20_000)
    for (let count = 0; count < 250 && (await countCut(gateway)) === 0; count++)
      await open(world.users.member.jwt, acme.id, `203.0.113.${count}`, 12_000)
    t.ok((await countCut(gateway)) > 0, 'some of the crowd are cut')
    t.notOk(hasClosed)
  },
)
