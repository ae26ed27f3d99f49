import { createHash, randomBytes } from 'node:crypto'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import t, { type Test } from 'tap'
import { call, callRaw } from '../support/client.ts'
import { startFairClock } from '../support/fair-clock.ts'
import {
  countHeads,
  openRawClient,
  openRoute,
  type RawClient,
  type RawUpstream,
  startRawUpstream,
  startTestGateway,
  type TakeBytes,
  type TestGatewayOptions,
  until,
} from '../support/gateway.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const owner = oauth(world.users.owner)
const credential = `x-oauth-access-token: ${world.users.owner.jwt}\r\n`

const sha256 = (bytes: string | Buffer): string => createHash('sha256').update(bytes).digest('hex')
const mebibyte = 1024 * 1024

/** An upstream of the test behind a gateway with a public route. */
async function startPair(t: Test, take: TakeBytes, settings: TestGatewayOptions['settings'] = {}) {
  const upstream = await startRawUpstream(t, take)
  const gateway = await startTestGateway(t, {
    routes: [openRoute],
    upstreams: { platform: { url: upstream.url } },
    settings,
  })
  return { upstream, gateway }
}

const answerOk = (socket: Socket, body = 'ok'): void => {
  socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
}

const untilReleased = ({ received, sockets }: RawUpstream): Promise<void> =>
  until(
    () => sockets().every((socket, index) => received()[index] === '' || socket.readableEnded || socket.destroyed),
    'the release of the upstream',
    1_000,
  )

const requestsOf = ({ received }: RawUpstream): number => received().reduce((sum, bytes) => sum + countHeads(bytes), 0)

const host = 'Host: h\r\n'

const answerWhole: TakeBytes = (socket, soFar) => {
  const body = soFar.slice(soFar.lastIndexOf(' HTTP/1.1\r\n'))
  const [head = '', rest] = body.split(/\r\n\r\n([\s\S]*)/)
  const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
  const isWhole = /transfer-encoding/i.test(head) ? rest?.endsWith('0\r\n\r\n') : (rest?.length ?? -1) >= length
  if (isWhole) answerOk(socket)
}

t.test('a body with a length arrives whole, under that length', async (t) => {
  await world.clearRecorder()
  const body = randomBytes(mebibyte)
  const { status } = await world.call({ method: 'POST', path: '/public/upload', headers: owner, body })
  t.equal(status, 200)
  const [request] = await world.recorded()
  t.match(request, { bodyBytes: mebibyte, bodySha256: sha256(body), bodyComplete: true, aborted: false })
  const framing = request?.headers.filter(([name]) => /^(?:content-length|transfer-encoding)$/i.test(name))
  t.same(framing, [['content-length', String(mebibyte)]])
})

t.test('a chunked body arrives whole, without its chunk extensions and trailers', async (t) => {
  const { upstream, gateway } = await startPair(t, answerWhole)
  const chunks = '3;name="value"\r\nabc\r\n4\r\ndefg\r\n1\r\nh\r\n0\r\nx-organization-id: 7\r\n\r\n'
  const head = `POST /x HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\nTrailer: x-organization-id\r\n\r\n`
  t.match(await callRaw(gateway.public, head + chunks), /^HTTP\/1\.1 200 /)
  const [bytes = ''] = upstream.received()
  t.match(bytes, /\r\ntransfer-encoding: chunked\r\n/i)
  t.notMatch(bytes, /content-length|trailer|value|x-organization-id/i)
  const sent = bytes.slice(bytes.indexOf('\r\n\r\n') + 4)
  t.equal(sent.replace(/[0-9a-f]+\r\n([\s\S]*?)\r\n/g, '$1').trim(), 'abcdefgh')
})

t.test('5 MiB pass both ways unchanged, with a length and chunked', async (t) => {
  const server = createServer((request, response) => request.pipe(response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  const gateway = await startTestGateway(t, {
    routes: [openRoute],
    upstreams: { platform: { url: `http://127.0.0.1:${port}` } },
  })
  const body = randomBytes(5 * mebibyte)
  for (const framing of [{ 'content-length': String(body.length) }, { 'transfer-encoding': 'chunked' }]) {
    const answer = await fetchBytes(`${gateway.public}/echo`, framing, body)
    t.equal(sha256(answer), sha256(body), Object.keys(framing).join())
  }
})

async function fetchBytes(url: string, headers: Record<string, string>, body: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest(url, { method: 'POST', headers, agent: false }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => resolve(Buffer.concat(chunks)))
      response.on('error', reject)
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}

t.test('a GET keeps its body, and the next request on the connection is unharmed', async (t) => {
  await world.clearRecorder()
  const first = `GET /public/with-body HTTP/1.1\r\n${host}${credential}Content-Length: 5\r\n\r\nhello`
  const second = `GET /public/after HTTP/1.1\r\n${host}${credential}Connection: close\r\n\r\n`
  const answers = await world.raw(first + second)
  t.equal(answers.match(/HTTP\/1\.1 200 /g)?.length, 2)
  const seen = await world.recorded()
  const withBody = seen.find(({ requestLine }) => requestLine.includes('/with-body'))
  t.match(withBody, { bodyBytes: 5, bodySha256: sha256('hello'), bodyComplete: true })
  t.match(
    seen.find(({ requestLine }) => requestLine.includes('/after')),
    { requestLine: 'GET /public/after HTTP/1.1', bodyBytes: 0 },
  )
})

t.test('a chunked body on GET is framed once', async (t) => {
  const { upstream, gateway } = await startPair(t, answerWhole)
  const head = `GET /x HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n`
  t.match(await callRaw(gateway.public, `${head}5\r\nhello\r\n0\r\n\r\n`), /^HTTP\/1\.1 200 /)
  const [bytes = ''] = upstream.received()
  t.match(bytes, /\r\ntransfer-encoding: chunked\r\n/i)
  t.match(bytes, /\r\n\r\n5\r\nhello\r\n0\r\n\r\n$/)
})

t.test('a DELETE without a body goes out without any framing', async (t) => {
  const { upstream, gateway } = await startPair(t, answerWhole)
  t.equal((await call(gateway.public, { method: 'DELETE', path: '/x' })).status, 200)
  t.notMatch(upstream.received()[0], /content-length|transfer-encoding/i)
})

t.test('Expect: 100-continue is answered after the permit, and not sent on', async (t) => {
  await world.clearRecorder()
  const client = await openRawClient(t, world.public)
  client.send(`POST /public/x HTTP/1.1\r\n${host}${credential}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n`)
  t.equal(await client.until(/\r\n\r\n/), 'HTTP/1.1 100 Continue\r\n\r\n')
  client.send('hello')
  t.match(await client.until(/bodySha256/), /\r\n\r\nHTTP\/1\.1 200 /)
  const [request] = await world.recorded()
  t.match(request, { bodyBytes: 5, bodyComplete: true })
  t.notOk(request?.headers.some(([name]) => name.toLowerCase() === 'expect'))
})

for (const [why, lines, path, status] of [
  ['without a credential', '', '/public/x', 401],
  ['without the role', `x-oauth-access-token: ${world.users.client.jwt}\r\n`, '/admin/x', 403],
  ['for an unknown path', credential, '/nowhere', 404],
] as const) {
  t.test(`an upload refused ${why} gets no 100, and its connection closes`, async (t) => {
    await world.clearRecorder()
    const client = await openRawClient(t, world.public)
    client.send(`POST ${path} HTTP/1.1\r\n${host}${lines}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n`)
    const text = await client.closed()
    t.match(text, new RegExp(`^HTTP/1.1 ${status} `))
    t.match(text, /\r\nconnection: close\r\n/i)
    t.notMatch(text, /HTTP\/1\.1 100/)
    t.same(await world.recorded(), [])
  })
}

t.test('nothing reaches a backend of an upload that is refused while its body arrives', async (t) => {
  await world.clearRecorder()
  const client = await openRawClient(t, world.public)
  client.send(`POST /public/x HTTP/1.1\r\n${host}Content-Length: 100000\r\n\r\n${'x'.repeat(50_000)}`)
  t.match(await client.until(/\r\n\r\n/), /^HTTP\/1\.1 401 /)
  client.send('x'.repeat(50_000))
  client.send(`GET /public/next HTTP/1.1\r\n${host}${credential}\r\n`)
  t.match(await client.until(/HTTP\/1\.1 200 /), /"\/public\/next"/, 'the connection goes on behind the body')
  t.equal((await world.recorded()).length, 1)
})

t.test('a client sees the refusal of a large upload that it does not stop sending', async (t) => {
  const client = await openRawClient(t, world.public)
  client.send(`POST /public/x HTTP/1.1\r\n${host}Content-Length: ${8 * mebibyte}\r\n\r\n`)
  client.send(Buffer.alloc(8 * mebibyte))
  t.match(await client.until(/\r\n\r\n\{/), /^HTTP\/1\.1 401 /)
})

t.test('an answer that comes before the body is complete reaches the client', async (t) => {
  const { gateway } = await startPair(t, (socket, soFar) => {
    if (soFar.includes('\r\n\r\nhalf'))
      socket.end('HTTP/1.1 413 Payload Too Large\r\nconnection: close\r\ncontent-length: 5\r\n\r\nearly')
  })
  const client = await openRawClient(t, gateway.public)
  client.send(`POST /x HTTP/1.1\r\n${host}Content-Length: 8\r\n\r\nhalf`)
  t.match(await client.until(/early$/), /^HTTP\/1\.1 413 /)
})

t.test('an early answer of an upstream that keeps its connection reaches the client, and harms no other', async (t) => {
  const { gateway } = await startPair(t, (socket, soFar) => {
    if (soFar.startsWith('GET')) answerOk(socket, 'other')
    else if (soFar.endsWith('half')) answerOk(socket, 'early')
  })
  const client = await openRawClient(t, gateway.public)
  client.send(`POST /x HTTP/1.1\r\n${host}Content-Length: 8\r\n\r\nhalf`)
  t.match(await client.until(/early$/), /^HTTP\/1\.1 200 /)
  t.equal((await call(gateway.public, { path: '/y' })).text, 'other')
})

const truncations: readonly (readonly [how: string, begin: string, end: (socket: Socket) => void])[] = [
  ['a length, by FIN', 'content-length: 100\r\n\r\npart', (socket) => socket.end()],
  ['a length, by RST', 'content-length: 100\r\n\r\npart', (socket) => socket.resetAndDestroy()],
  ['a length and Connection: close', 'connection: close\r\ncontent-length: 100\r\n\r\npart', (socket) => socket.end()],
  ['no framing, by RST', 'x-end: none\r\n\r\npart', (socket) => socket.resetAndDestroy()],
  ['chunks, by FIN', 'transfer-encoding: chunked\r\n\r\n4\r\npart\r\n', (socket) => socket.end()],
  ['chunks, inside one', 'transfer-encoding: chunked\r\n\r\n64\r\npart', (socket) => socket.end()],
  ['chunks, by RST', 'transfer-encoding: chunked\r\n\r\n4\r\npart\r\n', (socket) => socket.resetAndDestroy()],
  [
    'chunks and Connection: close',
    'connection: close\r\ntransfer-encoding: chunked\r\n\r\n4\r\npart\r\n',
    (socket) => socket.end(),
  ],
]
for (const [how, begin, end] of truncations) {
  t.test(`an answer cut short (${how}) is a broken answer for the client`, async (t) => {
    const { upstream, gateway } = await startPair(t, (socket) => socket.write(`HTTP/1.1 200 OK\r\n${begin}`))
    const client = await openRawClient(t, gateway.public)
    client.send(`GET /x HTTP/1.1\r\n${host}\r\n`)
    await client.until(/part/)
    for (const socket of upstream.sockets()) end(socket)
    const text = await client.closed()
    t.match(text, /^HTTP\/1\.1 200 /)
    t.notMatch(text, /0\r\n\r\n$/)
  })
}

t.test('an answer without any framing ends with its connection', async (t) => {
  const { gateway } = await startPair(t, (socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nall of it'))
  t.equal((await call(gateway.public, { path: '/x' })).text, 'all of it')
})

const unavailable = { status: 503, code: 'upstream_unavailable' }
const surfaces: readonly (readonly [surface: string, request: Parameters<typeof world.call>[0], shape: object])[] = [
  ['platform', { path: '/datasets' }, { success: false, message: String, error: unavailable }],
  ['files', { path: '/v1/files' }, { success: false, message: String, error: unavailable }],
  ['data', { path: '/data/rows' }, { detail: String }],
  [
    'model',
    { method: 'POST', path: '/agent/1/responses', body: '{}' },
    { error: { message: String, type: 'server_error', code: 'upstream_unavailable' } },
  ],
  [
    'graphql',
    { method: 'POST', path: '/graphql', body: '{}' },
    { data: null, errors: [{ message: String, path: [], extensions: { status: 503 } }] },
  ],
]
t.test('a refused connection is 503 in the shape of the surface', async (t) => {
  const gateway = await startTestGateway(t, { world })
  for (const [surface, request, shape] of surfaces) {
    const answer = await call(gateway.public, { ...request, headers: owner })
    t.equal(answer.status, 503, surface)
    t.match(answer.json(), shape, surface)
  }
})

t.test('an upstream that does not answer in time is 503 upstream_timeout', async (t) => {
  const upstream = await startRawUpstream(t, () => {})
  const gateway = await startTestGateway(t, {
    world,
    upstreams: { platform: { url: upstream.url }, agents: { url: upstream.url } },
    settings: { timeouts: { firstByteMs: 200 } },
  })
  const platform = await call(gateway.public, { path: '/datasets', headers: owner })
  t.match(platform, { status: 503 })
  t.match(platform.json(), { error: { status: 503, code: 'upstream_timeout' } })
  const model = await call(gateway.public, { method: 'POST', path: '/agent/1/responses', headers: owner, body: '{}' })
  t.match(model, { status: 503 })
  t.match(model.json(), { error: { type: 'server_error', code: 'upstream_timeout' } })
  t.equal(requestsOf(upstream), 2, 'a time-out is not tried again')
})

t.test('an answer that falls silent in its body is broken at the idle time-out', async (t) => {
  const { gateway } = await startPair(
    t,
    (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart'),
    { timeouts: { idleMs: 300 } },
  )
  const client = await openRawClient(t, gateway.public)
  client.send(`GET /x HTTP/1.1\r\n${host}\r\n`)
  t.match(await client.closed(), /\r\n\r\npart$/)
})

/** Answers the first request of the first connection, and closes on the second as a server may. */
const closeOnReuse =
  (end: (socket: Socket) => void): TakeBytes =>
  (socket, soFar, connection) => {
    if (connection === 0 && countHeads(soFar) > 1) end(socket)
    else answerOk(socket, `connection ${connection}`)
  }

for (const method of ['GET', 'PUT', 'DELETE', 'OPTIONS']) {
  t.test(`a kept connection that closes under a ${method} without a body costs one retry`, async (t) => {
    const { upstream, gateway } = await startPair(
      t,
      closeOnReuse((socket) => socket.resetAndDestroy()),
    )
    t.equal((await call(gateway.public, { path: '/first' })).text, 'connection 0')
    t.match(await call(gateway.public, { method, path: '/second' }), { status: 200, text: 'connection 1' })
    t.equal(requestsOf(upstream), 3)
  })
}

t.test('a kept connection that closes by FIN under a GET costs one retry as well', async (t) => {
  const { upstream, gateway } = await startPair(
    t,
    closeOnReuse((socket) => socket.end()),
  )
  await call(gateway.public, { path: '/first' })
  t.match(await call(gateway.public, { path: '/second' }), { status: 200, text: 'connection 1' })
  t.equal(requestsOf(upstream), 3)
})

for (const [what, method, body] of [
  ['a POST', 'POST', 'x'],
  ['a POST without a body', 'POST', undefined],
  ['a PATCH without a body', 'PATCH', undefined],
  ['a PUT with a body', 'PUT', 'x'],
] as const) {
  t.test(`${what} is never sent twice`, async (t) => {
    const { upstream, gateway } = await startPair(
      t,
      closeOnReuse((socket) => socket.resetAndDestroy()),
    )
    await call(gateway.public, { path: '/first' })
    const answer = await call(gateway.public, { method, path: '/second', ...(body !== undefined && { body }) })
    t.equal(answer.status, 503)
    t.match(answer.json(), { error: { code: 'upstream_unavailable' } })
    t.equal(requestsOf(upstream), 2)
  })
}

t.test('a retry that fails is final', async (t) => {
  const { upstream, gateway } = await startPair(t, (socket) => socket.resetAndDestroy())
  t.equal((await call(gateway.public, { path: '/x' })).status, 503)
  t.equal(requestsOf(upstream), 2)
})

for (const [what, bytes] of [
  ['a part of a head', 'HTTP/1.1 200 OK\r\ncontent-'],
  ['a single byte', 'H'],
  ['an interim answer', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
] as const) {
  t.test(`nothing is tried again after ${what}`, async (t) => {
    const { upstream, gateway } = await startPair(t, (socket) => {
      socket.write(bytes, () => setTimeout(() => socket.destroy(), 50))
    })
    t.equal((await call(gateway.public, { path: '/x' })).status, 503)
    t.equal(requestsOf(upstream), 1)
  })
}

const unreadable: Readonly<Record<string, string>> = {
  'no HTTP at all': 'SSH-2.0-OpenSSH\r\n\r\n',
  'two lengths': 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nabc',
  'a length that is no number': 'HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\nab',
  'a length beside chunks':
    'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n',
  'an upgrade without a request for it':
    'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n',
  'a head of 256 KiB': `HTTP/1.1 200 OK\r\nx-long: ${'x'.repeat(256 * 1024)}\r\ncontent-length: 0\r\n\r\n`,
  'a NUL in a header': 'HTTP/1.1 200 OK\r\nx-odd: a\u0000b\r\ncontent-length: 0\r\n\r\n',
}
for (const [what, bytes] of Object.entries(unreadable)) {
  t.test(`an answer that is ${what} is 503, and asked for once`, async (t) => {
    const { upstream, gateway } = await startPair(t, (socket) => socket.write(bytes))
    const answer = await call(gateway.public, { path: '/x' })
    t.equal(answer.status, 503)
    t.match(answer.json(), { error: { code: 'upstream_unavailable' } })
    t.equal(requestsOf(upstream), 1)
  })
}

t.test('bytes of an upstream after its answer never reach another client', async (t) => {
  const { gateway } = await startPair(t, (socket, _soFar, connection) => {
    const poison = connection === 0 ? 'HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison' : ''
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok${poison}`)
  })
  for (let count = 0; count < 3; count++) t.equal((await call(gateway.public, { path: '/x' })).text, 'ok')
})

t.test('a reason phrase beyond ASCII does not cost the answer', async (t) => {
  const { gateway } = await startPair(t, (socket) => {
    socket.write(Buffer.from('HTTP/1.1 200 Tr\xe8s bien\r\nx-place: caf\xe9\r\ncontent-length: 2\r\n\r\nok', 'latin1'))
  })
  const answer = await call(gateway.public, { path: '/x' })
  t.match(answer, { status: 200, text: 'ok', headers: { 'x-place': 'caf\xe9' } })
})

/** The backend sees within a second that its request was abandoned. */
async function testRelease(t: Test, path: string): Promise<void> {
  const passedMs = startFairClock(t)
  const find = async () => (await world.recorded()).find(({ requestLine }) => requestLine.includes(path))
  await until(async () => (await find())?.closedAtMs, `the end of ${path}`)
  t.ok(passedMs() < 1_000, `after ${passedMs()} ms`)
  t.equal((await find())?.aborted, true)
}

const postScript = (script: readonly object[]): string => {
  const body = JSON.stringify({ stream: true, metadata: { script } })
  return `POST /agent/1/responses HTTP/1.1\r\n${host}${credential}Content-Length: ${body.length}\r\n\r\n${body}`
}

t.test('a client that leaves before the head releases the upstream within 1 s', async (t) => {
  await world.clearRecorder()
  const client = await openRawClient(t, world.public)
  client.send(postScript([{ waitMs: 60_000 }, { comment: 'late' }]))
  await until(async () => (await world.recorded()).length === 1, 'the request at the backend')
  client.socket.destroy()
  await testRelease(t, '/agent/1/responses')
})

t.test('a client that leaves a stream releases the upstream within 1 s', async (t) => {
  await world.clearRecorder()
  const client = await openRawClient(t, world.public)
  client.send(postScript([{ event: { type: 'response.created' } }, { end: 'hang' }]))
  await client.until(/response\.created/)
  client.socket.destroy()
  await testRelease(t, '/agent/1/responses')
})

t.test('a client that leaves in the middle of its body leaves no complete request behind', async (t) => {
  for (const framing of ['Content-Length: 100000', 'Transfer-Encoding: chunked']) {
    await world.clearRecorder()
    const client = await openRawClient(t, world.public)
    client.send(`POST /public/half HTTP/1.1\r\n${host}${credential}${framing}\r\n\r\n`)
    client.send(framing.startsWith('Content') ? 'half' : '4\r\nhalf\r\n')
    await until(async () => (await world.recorded())[0]?.bodyBytes === 4, 'half a body at the backend')
    client.socket.destroy()
    await testRelease(t, '/public/half')
    t.match(await world.recorded(), [{ bodyComplete: false, aborted: true }])
  }
})

t.test('a client that leaves releases what it had pipelined as well', async (t) => {
  const { upstream, gateway } = await startPair(t, () => {})
  const client = await openRawClient(t, gateway.public)
  client.send(`GET /first HTTP/1.1\r\n${host}\r\nGET /second HTTP/1.1\r\n${host}\r\n`)
  await until(() => requestsOf(upstream) === 1, 'the first of them at the upstream')
  client.socket.destroy()
  await untilReleased(upstream)
  await until(async () => /in_flight 0\n/.test((await call(gateway.admin, { path: '/metrics' })).text), 'an idle gauge')
})

t.test('a body that breaks off in its framing is an incomplete request', async (t) => {
  const { upstream, gateway } = await startPair(t, () => {})
  const client = await openRawClient(t, gateway.public)
  client.send(`POST /x HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n`)
  await until(() => upstream.received()[0]?.includes('half'), 'half a body at the upstream')
  client.send('not a size\r\n')
  t.match(await client.closed(), /^HTTP\/1\.1 400 /)
  await untilReleased(upstream)
  t.notMatch(upstream.received()[0], /0\r\n\r\n$/)
})

t.test('events of a stream pass one by one, at once', async (t) => {
  const sent = { type: 'response.output_text.delta', delta: 'x' }
  const { upstream, gateway } = await startPair(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n')
  })
  const client = await openRawClient(t, gateway.public)
  client.send(`GET /stream HTTP/1.1\r\n${host}\r\n`)
  await until(() => upstream.received()[0]?.includes('/stream'), 'the request, which the head answers')
  for (let number = 1; number <= 5; number++) {
    const event = `event: ${sent.type}\ndata: ${JSON.stringify({ ...sent, sequence_number: number })}\n\n`
    for (const socket of upstream.sockets()) socket.write(`${event.length.toString(16)}\r\n${event}\r\n`)
    // The next part is written only after this one has arrived, so that a buffering gateway stalls the test.
    await client.until(new RegExp(`"sequence_number":${number}\\}\\n\\n`))
  }
  for (const socket of upstream.sockets()) socket.write('0\r\n\r\n')
  t.match(await client.until(/\r\n0\r\n\r\n$/), /^HTTP\/1\.1 200 OK\r\ncontent-type: text\/event-stream\r\n/)
  t.notMatch(client.text(), /content-length/i)
})

/** Bytes that loopback sockets and streams buffer, both sides together. */
const slackBytes = 16 * mebibyte

t.test('a client that does not read holds its upstream back', async (t) => {
  const total = 64 * mebibyte
  let writtenBytes = 0
  const { gateway } = await startPair(t, (socket) => {
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${total}\r\n\r\n`)
    const chunk = Buffer.alloc(64 * 1024)
    const next = (): void => {
      if (writtenBytes < total) socket.write(chunk, next)
      writtenBytes += chunk.length
    }
    next()
  })
  const client = await openRawClient(t, gateway.public)
  client.send(`GET /large HTTP/1.1\r\n${host}\r\n`)
  await client.until(/200 OK/)
  client.socket.pause()
  await untilStill(() => writtenBytes)
  t.ok(writtenBytes < slackBytes, `the upstream got rid of ${writtenBytes} bytes`)
})

t.test('two long answers on one connection reach a slow reader whole', async (t) => {
  const size = 8 * mebibyte
  const { gateway } = await startPair(t, (socket) => {
    socket.write(Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`), Buffer.alloc(size)]))
  })
  const client = await openRawClient(t, gateway.public)
  let receivedBytes = 0
  client.socket.removeAllListeners('data')
  client.socket.on('data', (chunk) => {
    receivedBytes += chunk.length
  })
  client.socket.pause()
  client.send(`GET /first HTTP/1.1\r\n${host}\r\n`)
  await new Promise((resolve) => setTimeout(resolve, 300))
  client.send(`GET /second HTTP/1.1\r\n${host}\r\n`)
  await new Promise((resolve) => setTimeout(resolve, 100))
  client.socket.resume()
  await until(() => receivedBytes > 2 * size, 'both answers')
})

t.test('an upstream that does not read holds its client back', async (t) => {
  const { gateway } = await startPair(t, (socket) => socket.pause())
  const client = await openRawClient(t, gateway.public)
  let writtenBytes = 0
  const chunk = Buffer.alloc(64 * 1024)
  const next = (): void => {
    if (writtenBytes < 64 * mebibyte) client.socket.write(chunk, next)
    writtenBytes += chunk.length
  }
  client.send(`POST /large HTTP/1.1\r\n${host}Content-Length: ${64 * mebibyte}\r\n\r\n`)
  next()
  await untilStill(() => writtenBytes)
  t.ok(writtenBytes < slackBytes, `the client got rid of ${writtenBytes} bytes`)
})

async function untilStill(read: () => number): Promise<void> {
  let last = -1
  await until(async () => {
    const isStill = read() === last && last > 0
    last = read()
    await new Promise((resolve) => setTimeout(resolve, 200))
    return isStill
  }, 'a standstill')
}

const small = { limits: { bodyBytes: 1000 } }

t.test('a body announced larger than the limit is 413, and nothing of it is read or sent on', async (t) => {
  const { upstream, gateway } = await startPair(t, answerWhole, small)
  const client = await openRawClient(t, gateway.public)
  client.send(`POST /x HTTP/1.1\r\n${host}Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n`)
  const text = await client.closed()
  t.match(text, /^HTTP\/1\.1 413 /)
  t.match(text, /"code":"body_too_large"/)
  t.equal(upstream.sockets().length, 0)
})

t.test('a chunked body that outgrows the limit is 413, and no complete request at the upstream', async (t) => {
  const { upstream, gateway } = await startPair(t, answerWhole, small)
  const client = await openRawClient(t, gateway.public)
  client.send(`POST /x HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n3e8\r\n${'x'.repeat(1000)}\r\n`)
  await until(() => upstream.received()[0]?.includes('xxx'), 'the first chunk at the upstream')
  client.send('1\r\nx\r\n')
  t.match(await client.until(/body_too_large/), /^HTTP\/1\.1 413 /)
  await untilReleased(upstream)
  t.notMatch(upstream.received()[0], /0\r\n\r\n$/)
})

t.test('a body just as large as the limit passes, announced or chunked', async (t) => {
  const { gateway } = await startPair(t, answerWhole, small)
  const body = 'x'.repeat(1000)
  t.equal((await call(gateway.public, { method: 'POST', path: '/x', body })).status, 200)
  const head = `POST /x HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n`
  t.match(await callRaw(gateway.public, `${head}3e8\r\n${body}\r\n0\r\n\r\n`), /^HTTP\/1\.1 200 /)
})

t.test('a body that falls silent is 408, and the upstream is released', async (t) => {
  const { upstream, gateway } = await startPair(t, answerWhole, { timeouts: { bodyIdleMs: 200 } })
  const client = await openRawClient(t, gateway.public)
  client.send(`POST /x HTTP/1.1\r\n${host}Content-Length: 8\r\n\r\nhalf`)
  t.match(await client.until(/\r\n\r\n\{/), /^HTTP\/1\.1 408 /)
  await untilReleased(upstream)
})

t.test('the answer to HEAD keeps its length and has no body', async (t) => {
  const { gateway } = await startPair(t, (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n'))
  const client = await openRawClient(t, gateway.public)
  client.send(`HEAD /x HTTP/1.1\r\n${host}\r\n`)
  const text = await client.until(/\r\n\r\n/)
  t.match(text, /\r\ncontent-length: 100\r\n/i)
  t.ok(text.endsWith('\r\n\r\n'))
  await goesOn(t, client)
})

for (const status of ['204 No Content', '304 Not Modified']) {
  t.test(`${status} passes without a body`, async (t) => {
    const { gateway } = await startPair(t, (socket) => socket.write(`HTTP/1.1 ${status}\r\netag: "x"\r\n\r\n`))
    const client = await openRawClient(t, gateway.public)
    client.send(`GET /x HTTP/1.1\r\n${host}\r\n`)
    const text = await client.until(/\r\n\r\n/)
    t.match(text, new RegExp(`^HTTP/1.1 ${status}\r\n`))
    t.match(text, /\r\netag: "x"\r\n/i)
    t.notMatch(text, /content-length|transfer-encoding/i)
    await goesOn(t, client)
  })
}

/** The connection is in step: the next request on it gets its own answer. */
async function goesOn(t: Test, client: RawClient): Promise<void> {
  const before = client.text().length
  client.send(`BREW /x HTTP/1.1\r\n${host}\r\n`)
  t.match((await client.until(/HTTP\/1\.1 501 /)).slice(before), /^HTTP\/1\.1 501 /)
}

t.test('interim answers are dropped, and the final one passes', async (t) => {
  const { gateway } = await startPair(t, (socket) => {
    socket.write('HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n')
    answerOk(socket)
  })
  const text = await callRaw(gateway.public, `GET /x HTTP/1.1\r\n${host}Connection: close\r\n\r\n`)
  t.match(text, /^HTTP\/1\.1 200 /)
  t.notMatch(text, /HTTP\/1\.1 1|link:/)
})

t.test('answers pass unchanged: a redirect is not followed, a 429 keeps Retry-After, a coding its bytes', async (t) => {
  const bytes = randomBytes(64)
  for (const [status, headers] of [
    [302, { location: 'http://elsewhere.example/x?y' }],
    [429, { 'retry-after': '7' }],
    [200, { 'content-encoding': 'gzip' }],
    [503, { 'retry-after': '3' }],
    [404, { 'x-own': 'words' }],
  ] as const) {
    const answer = await world.call({
      path: '/public/x',
      headers: { ...owner, 'x-demo-answer': JSON.stringify({ status, headers, bodyBase64: bytes.toString('base64') }) },
    })
    t.match(answer, { status, headers })
    t.equal(answer.headers['content-length'], '64')
    t.equal(answer.text, bytes.toString('utf8'))
  }
})
