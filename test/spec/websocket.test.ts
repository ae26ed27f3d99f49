import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type RawData, WebSocket } from 'ws'
import { call, type JsonValue } from '../support/client.ts'
import { startFairClock } from '../support/fair-clock.ts'
import {
  countHeads,
  openRawClient,
  type RawClient,
  type RawUpstream,
  startRawUpstream,
  startTestGateway,
  type TakeBytes,
  until,
} from '../support/gateway.ts'
import { accept, handshake, socketRoute, switching } from '../support/websocket.ts'
import { oauth, type RecordedRequest, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t, { hasOwnProcess: true })
const member = oauth(world.users.member)
const socketUrl = `${world.public.replace('http', 'ws')}/socket`

async function openSocket(t: Test, headers: Record<string, string> = {}, protocols: string[] = []): Promise<WebSocket> {
  const socket = new WebSocket(socketUrl, protocols, { headers: { ...member, ...headers } })
  t.teardown(() => socket.terminate())
  socket.on('error', () => {})
  await once(socket, 'open')
  return socket
}

function collect(socket: WebSocket, count: number): Promise<readonly Readonly<{ data: Buffer; isBinary: boolean }>[]> {
  const messages: { data: Buffer; isBinary: boolean }[] = []
  return new Promise((resolve, reject) => {
    socket.on('message', (data: RawData, isBinary) => {
      messages.push({ data: data as Buffer, isBinary }) // ws' own default for binaryType is Buffer
      if (messages.length === count) resolve(messages)
    })
    socket.on('close', (code) => reject(new Error(`closed (${code}) after ${messages.length} messages`)))
  })
}

t.test('text and binary messages come back as they went', async (t) => {
  const socket = await openSocket(t)
  const bytes = randomBytes(1024 * 1024)
  const echoed = collect(socket, 3)
  socket.send('héllo ✓')
  socket.send(bytes)
  socket.send('')
  const [text, binary, empty] = await echoed
  t.match(text, { isBinary: false })
  t.equal(text?.data.toString(), 'héllo ✓')
  t.match(binary, { isBinary: true })
  t.ok(binary?.data.equals(bytes), '1 MiB unchanged')
  t.equal(empty?.data.length, 0)
})

t.test('a thousand messages come back in their order', async (t) => {
  const socket = await openSocket(t)
  const echoed = collect(socket, 1_000)
  for (let number = 0; number < 1_000; number++) socket.send(`${number} ${'x'.repeat(number)}`)
  t.same(
    (await echoed).map(({ data }) => Number.parseInt(data.toString(), 10)),
    Array.from({ length: 1_000 }, (_, number) => number),
  )
})

t.test('a closing handshake passes with its code and reason', async (t) => {
  await world.clearRecorder()
  const socket = await openSocket(t)
  socket.close(4001, 'enough')
  t.equal((await once(socket, 'close'))[0], 4001)
  await until(async () => (await world.recorded())[0]?.closedAtMs, 'the end at the backend')
  t.match(await world.recorded(), [{ aborted: false }])
})

const linesOf = ({ headers }: RecordedRequest, name: string): readonly string[] =>
  headers.filter(([header]) => header.toLowerCase() === name).map(([, value]) => value)

const claimsOf = (jws: string | undefined): JsonValue =>
  JSON.parse(Buffer.from(jws?.split('.')[1] ?? '', 'base64url').toString())

t.test('the backend gets the pinned headers, never the client’s own nor its credential', async (t) => {
  await world.clearRecorder()
  await openSocket(t, {
    'x-gateway-identity': 'forged',
    X_Gateway_Identity: 'forged',
    connection: 'upgrade, x-gateway-identity, x-organization-id',
    'x-organization-id': String(world.organizations.acme.id),
    origin: 'https://app.example',
  })
  const [seen] = await world.recorded()
  if (!seen) throw new Error('nothing arrived')
  t.equal(seen.requestLine, 'GET /socket HTTP/1.1')
  const identities = seen.headers.filter(([name]) => /^x.gateway.identity$/i.test(name))
  t.equal(identities.length, 1)
  t.match(claimsOf(identities[0]?.[1]), {
    aud: 'platform',
    user: { id: world.users.member.id },
    organization: { slug: 'acme' },
  })
  t.same(linesOf(seen, 'x-organization-id'), [String(world.organizations.acme.id)])
  t.same(linesOf(seen, 'x-oauth-access-token'), [])
  t.same(linesOf(seen, 'connection'), ['upgrade'])
  t.same(linesOf(seen, 'upgrade'), ['websocket'])
  t.same(linesOf(seen, 'origin'), ['https://app.example'], 'which is the backend’s to judge')
})

t.test('a handshake without a credential is 401, without the role 403, and neither reaches the backend', async (t) => {
  await world.clearRecorder()
  for (const [headers, status, error] of [
    [{}, 401, { code: 'unauthenticated' }],
    [{ 'x-oauth-access-token': 'eyJ.e.e' }, 401, {}],
    [oauth(world.users.client), 403, { check: 'role' }],
    [{ ...member, 'x-organization-id': String(world.organizations.globex.id) }, 401, { code: 'not_a_member' }],
  ] as const) {
    const socket = new WebSocket(socketUrl, { headers })
    const [, response] = await once(socket, 'unexpected-response')
    t.equal(response.statusCode, status)
    t.equal(response.headers.connection, 'close')
    let body = ''
    for await (const chunk of response) body += chunk
    t.match(JSON.parse(body), { success: false, error: { status, ...error } })
  }
  t.same(await world.recorded(), [])
})

const readLog = (requestId: string): readonly JsonValue[] =>
  readFileSync(join(world.directory, 'gateway.log'), 'utf8')
    .split('\n')
    .filter((line) => line.includes(`"${requestId}"`))
    .map((line) => JSON.parse(line))

t.test('the log line of a WebSocket is written at its end, with status 101', async (t) => {
  const socket = await openSocket(t, { 'x-request-id': 'joined-1' })
  t.match((await call(world.admin, { path: '/metrics' })).text, /\nsallyport_websockets_open [1-9]/)
  t.same(readLog('joined-1'), [])
  socket.close()
  await until(() => readLog('joined-1').length > 0, 'the line')
  t.match(readLog('joined-1'), [
    { status: 101, route: 'socket', reason: 'allowed', method: 'GET', upstream: 'platform' },
  ])
  t.notMatch(readLog('joined-1')[0], { isComplete: false })
})

t.test('a handshake that is refused has ended when its answer has', async (t) => {
  const head = handshake('/socket', 'x-request-id: refused-1\r\n')
  const client = await openRawClient(t, world.public)
  client.send(head)
  await client.closed()
  await until(() => readLog('refused-1').length > 0, 'the line')
  t.match(readLog('refused-1'), [{ status: 401, reason: 'unauthenticated' }])
  t.notMatch(readLog('refused-1')[0], { isComplete: false })
})

t.test('a WebSocket that broke off is not complete in the log', async (t) => {
  const client = await openRawClient(t, world.public)
  const { jwt } = world.users.member
  client.send(handshake('/socket', `x-oauth-access-token: ${jwt}\r\nx-request-id: broken-1\r\n`))
  await client.until(/ 101 /)
  client.socket.resetAndDestroy()
  await until(() => readLog('broken-1').length > 0, 'the line')
  t.match(readLog('broken-1'), [{ status: 101, isComplete: false }])
})

/** An upstream of the test behind a gateway that joins every client to it. */
async function startPair(t: Test, take: TakeBytes, options: Readonly<{ route?: object; settings?: object }> = {}) {
  const upstream = await startRawUpstream(t, take)
  const gateway = await startTestGateway(t, {
    routes: [{ ...socketRoute, ...options.route }],
    upstreams: { platform: { url: upstream.url } },
    settings: { ...options.settings },
  })
  return { upstream, gateway }
}

/** Switches protocols at the first head, and discards the rest. */
const switchOnce: TakeBytes = (socket, soFar) => {
  if (countHeads(soFar) === 1 && soFar.endsWith('\r\n\r\n')) socket.write(switching)
}

/** Ends its side when the other one does, as WebSocket servers do. */
const switchAndEnd: TakeBytes = (socket, soFar, connection) => {
  switchOnce(socket, soFar, connection)
  if (countHeads(soFar) === 1) socket.once('end', () => socket.end())
}

const behindHead = (bytes = ''): string => bytes.split('\r\n\r\n').slice(1).join('\r\n\r\n')

async function openJoined(t: Test, origin: string): Promise<RawClient> {
  const client = await openRawClient(t, origin)
  client.send(handshake())
  await client.until(/^HTTP\/1\.1 101 .*\r\n\r\n/s)
  return client
}

const isReleased = ({ sockets }: RawUpstream): boolean =>
  sockets().every((socket) => socket.readableEnded || socket.destroyed)

const untilReleased = (upstream: RawUpstream): Promise<void> =>
  until(() => isReleased(upstream), 'the release of the upstream', 1_000)

const untilIdle = (admin: string): Promise<void> =>
  until(async () => {
    const { text } = await call(admin, { path: '/metrics' })
    return /\nsallyport_requests_in_flight 0\n/.test(text) && /\nsallyport_websockets_open 0\n/.test(text)
  }, 'nothing in flight')

t.test('the lines of the handshake pass both ways, but those about a connection', async (t) => {
  const { upstream, gateway } = await startPair(t, (socket) => {
    socket.write(
      'HTTP/1.1 101 Web Socket Protocol Handshake\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade, X-Hop\r\n' +
        `X-Hop: gone\r\nKeep-Alive: timeout=5\r\nSec-WebSocket-Accept: ${accept}\r\nSec-WebSocket-Protocol: chat\r\n` +
        'Sec-WebSocket-Extensions: x; a=1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n',
    )
  })
  const client = await openRawClient(t, gateway.public)
  client.send(handshake('/a?b=%20', 'Sec-WebSocket-Protocol: chat, echo\r\nSec-WebSocket-Extensions: x; a\r\n'))
  const [head = ''] = (await client.until(/\r\n\r\n/)).split('\r\n\r\n')
  const [line, ...lines] = head.split('\r\n')
  t.equal(line, 'HTTP/1.1 101 Switching Protocols')
  t.ok(
    lines.some((text) => /^x-request-id: [\w-]{36}$/.test(text)),
    'every answer carries its id',
  )
  t.same(lines.filter((text) => !/^(?:date|x-request-id):/i.test(text)).sort(), [
    `Sec-WebSocket-Accept: ${accept}`,
    'Sec-WebSocket-Extensions: x; a=1',
    'Sec-WebSocket-Protocol: chat',
    'Set-Cookie: a=1',
    'Set-Cookie: b=2',
    'connection: upgrade',
    'upgrade: websocket',
  ])
  const [sent = ''] = upstream.received()
  t.match(sent, /^GET \/a\?b=%20 HTTP\/1\.1\r\n/)
  for (const name of ['Version: 13', 'Key: dGhlIHNhbXBsZSBub25jZQ==', 'Protocol: chat, echo', 'Extensions: x; a'])
    t.ok(sent.includes(`\r\nSec-WebSocket-${name}\r\n`), name)
})

t.test('an upstream that talks at once, in the packet of its 101, is heard', async (t) => {
  const { gateway } = await startPair(t, (socket) => socket.write(`${switching}hello`))
  const client = await openRawClient(t, gateway.public)
  client.send(handshake())
  await client.until(/\r\n\r\nhello$/)
})

t.test('a client’s bytes before its 101 are passed on only after that', async (t) => {
  const { upstream, gateway } = await startPair(t, () => {})
  const client = await openRawClient(t, gateway.public)
  client.send(`${handshake()}one`)
  await until(() => countHeads(upstream.received()[0] ?? '') === 1, 'the handshake')
  client.send('two')
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(behindHead(upstream.received()[0]), '')
  upstream.sockets()[0]?.write(switching)
  await client.until(/ 101 /)
  client.send('three')
  await until(() => behindHead(upstream.received()[0]) === 'onetwothree', 'the bytes, in order')
})

t.test('a request pipelined before a handshake is answered first', async (t) => {
  const { upstream, gateway } = await startPair(t, (socket, soFar) => {
    if (soFar.includes('Sec-WebSocket-Key')) socket.write(switching)
  })
  const client = await openRawClient(t, gateway.public)
  client.send(`GET /first HTTP/1.1\r\nHost: h\r\n\r\n${handshake()}early`)
  await until(() => upstream.sockets().length === 1, 'the first request')
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(client.text(), '')
  upstream.sockets()[0]?.write('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirst')
  t.match(await client.until(/ 101 .*\r\n\r\n/s), /^HTTP\/1\.1 200 OK\r\n.*\r\n\r\nfirstHTTP\/1\.1 101 /s)
  await until(() => upstream.received().some((bytes) => bytes.endsWith('\r\n\r\nearly')), 'the early bytes')
})

t.test('long answers before a handshake reach a slow reader whole, and do not stop what it says after', async (t) => {
  const size = 8 * 1024 * 1024
  const { upstream, gateway } = await startPair(t, (socket, soFar) => {
    if (soFar.includes('Sec-WebSocket-Key')) switchOnce(socket, soFar.slice(soFar.lastIndexOf('GET ')), 0)
    else
      socket.write(
        Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`), Buffer.alloc(size)]),
      )
  })
  const client = await openRawClient(t, gateway.public)
  let receivedBytes = 0
  let tail = ''
  client.socket.removeAllListeners('data')
  client.socket.on('data', (chunk) => {
    receivedBytes += chunk.length
    tail = (tail + chunk.toString('latin1')).slice(-500)
  })
  client.socket.pause()
  client.send('GET /first HTTP/1.1\r\nHost: h\r\n\r\n')
  // The gateway has more to write than the client takes, so it stops reading.
  await new Promise((resolve) => setTimeout(resolve, 300))
  client.send(`GET /second HTTP/1.1\r\nHost: h\r\n\r\n${handshake()}early`)
  await new Promise((resolve) => setTimeout(resolve, 100))
  client.socket.resume()
  await until(() => / 101 .*\r\n\r\n$/s.test(tail), 'the 101')
  t.ok(receivedBytes > 2 * size)
  client.send(' late')
  await until(() => upstream.received().some((bytes) => bytes.endsWith('\r\n\r\nearly late')), 'the client’s words')
})

t.test('a client that leaves behind an unanswered request takes its handshake along', async (t) => {
  for (const leave of ['end', 'destroy', 'resetAndDestroy'] as const) {
    const { upstream, gateway } = await startPair(t, () => {})
    const client = await openRawClient(t, gateway.public)
    client.send(`GET /first HTTP/1.1\r\nHost: h\r\n\r\n${handshake()}`)
    await until(() => upstream.received()[0]?.includes('/first'), 'the first request')
    client.socket[leave]()
    await untilReleased(upstream)
    await untilIdle(gateway.admin)
    t.notMatch(upstream.received().join(), /Sec-WebSocket-Key/, leave)
  }
})

t.test('a client that leaves before the upstream has answered releases it', async (t) => {
  for (const leave of ['end', 'destroy', 'resetAndDestroy'] as const) {
    const { upstream, gateway } = await startPair(t, () => {})
    const client = await openRawClient(t, gateway.public)
    client.send(handshake())
    await until(() => countHeads(upstream.received()[0] ?? '') === 1, 'the handshake')
    client.socket[leave]()
    await untilReleased(upstream)
    await untilIdle(gateway.admin)
    // The client has left before the 101.
    for (const socket of upstream.sockets()) socket.write(`${switching}late`)
  }
  t.pass('in three ways')
})

t.test('a joined client that leaves releases the upstream, and the upstream the client', async (t) => {
  for (const leave of ['end', 'destroy', 'resetAndDestroy'] as const) {
    const { upstream, gateway } = await startPair(t, switchAndEnd)
    const first = await openJoined(t, gateway.public)
    first.socket[leave]()
    await untilReleased(upstream)
    const second = await openJoined(t, gateway.public)
    upstream.sockets()[1]?.[leave]()
    await second.closed()
    await untilIdle(gateway.admin)
  }
  t.pass('in three ways')
})

t.test('bytes that either side sent before it left arrive', async (t) => {
  const { upstream, gateway } = await startPair(t, switchOnce)
  const client = await openJoined(t, gateway.public)
  client.socket.end('last words')
  await until(() => upstream.sockets()[0]?.readableEnded, 'the end at the upstream')
  t.equal(behindHead(upstream.received()[0]), 'last words')
  // The other half of the connection is still open.
  upstream.sockets()[0]?.end('good bye')
  t.match(await client.closed(), /\r\n\r\ngood bye$/)
  await untilIdle(gateway.admin)
})

t.test('an upstream that has left is heard to its last byte', async (t) => {
  const size = 4 * 1024 * 1024
  const { upstream, gateway } = await startPair(t, switchOnce)
  const client = await openJoined(t, gateway.public)
  const headBytes = client.text().length
  upstream.sockets()[0]?.end(Buffer.alloc(size, 'x'))
  client.socket.pause()
  await new Promise((resolve) => setTimeout(resolve, 300))
  client.socket.resume()
  await once(client.socket, 'end')
  t.equal(client.text().length - headBytes, size)
})

t.test('a reset in the middle of traffic ends no more than its own connection', async (t) => {
  const chunk = Buffer.alloc(64 * 1024)
  const { gateway } = await startPair(t, (socket, soFar) => {
    if (!soFar.endsWith('\r\n\r\n')) return
    socket.write(switching)
    const talk = (error?: Error | null): void => {
      // Node calls back with each write that an error ends, before the socket counts as destroyed.
      if (!error && !socket.destroyed) socket.write(chunk, talk)
    }
    talk()
    if (soFar.includes('/upstream-resets')) setTimeout(() => socket.resetAndDestroy(), 50)
  })
  for (const path of ['/upstream-resets', '/client-resets']) {
    const client = await openRawClient(t, gateway.public)
    client.send(handshake(path))
    await client.until(/ 101 /)
    const talk = (error?: Error | null): void => {
      if (!error && !client.socket.destroyed) client.socket.write(chunk, talk)
    }
    talk()
    if (path === '/client-resets') setTimeout(() => client.socket.resetAndDestroy(), 50)
    await until(() => client.socket.destroyed, path)
  }
  await untilIdle(gateway.admin)
})

t.test('silence of both sides ends a WebSocket, and bytes of either side keep it', async (t) => {
  const { upstream, gateway } = await startPair(t, switchOnce, { route: { timeouts: { streamIdleMs: 1_500 } } })
  const client = await openJoined(t, gateway.public)
  for (let count = 0; count < 16; count++) {
    if (count < 8) upstream.sockets()[0]?.write('x')
    else client.send('x')
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  t.notOk(isReleased(upstream), 'still joined after 3.2 s')
  await client.closed()
  await untilReleased(upstream)
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

t.test('a side that does not read holds the other one back', async (t) => {
  const chunk = Buffer.alloc(64 * 1024)
  const total = 64 * 1024 * 1024
  const { upstream, gateway } = await startPair(t, switchOnce)
  const pour = (to: RawClient['socket'] | undefined): (() => number) => {
    let writtenBytes = 0
    const next = (): void => {
      if (writtenBytes >= total) return
      to?.write(chunk, next)
      writtenBytes += chunk.length
    }
    next()
    return () => writtenBytes
  }
  const deaf = await openJoined(t, gateway.public)
  deaf.socket.pause()
  const fromUpstream = pour(upstream.sockets()[0])
  await untilStill(fromUpstream)
  t.ok(fromUpstream() < total / 4, `the upstream got rid of ${fromUpstream()} bytes`)

  const talker = await openJoined(t, gateway.public)
  upstream.sockets()[1]?.pause()
  const fromClient = pour(talker.socket)
  await untilStill(fromClient)
  t.ok(fromClient() < total / 4, `the client got rid of ${fromClient()} bytes`)
})

t.test('a client that floods before its 101 is held back', async (t) => {
  const { gateway } = await startPair(t, () => {})
  const client = await openRawClient(t, gateway.public)
  client.send(handshake())
  const chunk = Buffer.alloc(64 * 1024)
  const total = 64 * 1024 * 1024
  let writtenBytes = 0
  const next = (): void => {
    if (writtenBytes < total) client.socket.write(chunk, next)
    writtenBytes += chunk.length
  }
  next()
  await untilStill(() => writtenBytes)
  t.ok(writtenBytes < total / 4, `it got rid of ${writtenBytes} bytes`)
})

t.test('a kept connection that closes under a handshake costs one retry', async (t) => {
  const { upstream, gateway } = await startPair(t, (socket, soFar, connection) => {
    if (connection > 0) socket.write(switching)
    else if (countHeads(soFar) > 1) socket.resetAndDestroy()
    else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
  })
  t.equal((await call(gateway.public, { path: '/first' })).text, 'ok')
  await openJoined(t, gateway.public)
  t.equal(upstream.sockets().length, 2)
})

t.test('200 connections opened and dropped leave nothing behind', async (t) => {
  const { upstream, gateway } = await startPair(t, switchAndEnd)
  for (let round = 0; round < 4; round++) {
    const clients = await Promise.all(Array.from({ length: 50 }, () => openJoined(t, gateway.public)))
    for (const [index, { socket }] of clients.entries()) {
      if (index % 2 === 0) socket.resetAndDestroy()
      else socket.destroy()
    }
  }
  t.equal(upstream.sockets().length, 200)
  await untilReleased(upstream)
  await untilIdle(gateway.admin)
})

t.test('a drain ends in its time, and takes what is still open along', async (t) => {
  const { upstream, gateway } = await startPair(t, switchOnce)
  const joined = await openJoined(t, gateway.public)
  const waiting = await openRawClient(t, gateway.public)
  waiting.send(handshake('/waits').replace('websocket', 'nothing'))
  const startedMs = performance.now()
  const passedMs = startFairClock(t)
  const drained = gateway.drain({ delayMs: 0, timeoutMs: 400 })
  joined.send('still here')
  await until(() => behindHead(upstream.received()[0]) === 'still here', 'traffic while draining')
  await Promise.all([joined.closed(), drained])
  const tookMs = performance.now() - startedMs
  t.ok(tookMs >= 390 && passedMs() < 3_000, `after ${tookMs} ms`)
  await untilReleased(upstream)
})

t.test('a drain does not wait for a WebSocket that ends by itself', async (t) => {
  const { gateway } = await startPair(t, switchAndEnd)
  const client = await openJoined(t, gateway.public)
  const drained = gateway.drain({ delayMs: 0, timeoutMs: 60_000 })
  client.socket.end()
  await drained
  t.pass('drained')
})

t.test('an upstream that refuses or never answers is 503 in shape, and the connection ends', async (t) => {
  const nowhere = await startTestGateway(t, { routes: [socketRoute] })
  const refused = await openRawClient(t, nowhere.public)
  refused.send(handshake())
  t.match(await refused.closed(), /^HTTP\/1\.1 503 .*\r\nconnection: close\r\n.*"code":"upstream_unavailable"/is)

  const { upstream, gateway } = await startPair(t, () => {}, { route: { timeouts: { firstByteMs: 300 } } })
  const hung = await openRawClient(t, gateway.public)
  hung.send(handshake())
  t.match(await hung.closed(), /^HTTP\/1\.1 503 .*"code":"upstream_timeout"/s)
  await untilReleased(upstream)
})
