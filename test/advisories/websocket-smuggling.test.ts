import t, { type Test } from 'tap'
import { countHeads, openRawClient, openRoute, startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { accept, handshake, socketRoute } from '../support/websocket.ts'

// Proxies that join the connections without a true 101 let clients send unjudged requests to the upstream.
const smuggled = 'GET /admin HTTP/1.1\r\nHost: h\r\n\r\n'

/** Sends a handshake and a request behind it, before and after the upstream's answer; resolves with all that came back. */
async function smuggle(t: Test, says: string, route: Readonly<Record<string, unknown>> = socketRoute): Promise<string> {
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    if (countHeads(soFar) === 1 && soFar.endsWith('\r\n\r\n')) socket.write(says)
  })
  const gateway = await startTestGateway(t, { routes: [route], upstreams: { platform: { url: upstream.url } } })
  const client = await openRawClient(t, gateway.public)
  client.send(handshake() + smuggled)
  await client.until(/\r\n\r\n/)
  client.send(smuggled)
  const text = await client.closed()
  client.send(smuggled)
  await until(() => client.socket.destroyed, 'the end of the connection')
  t.equal(countHeads(upstream.received().join('')), 1, 'one request at the upstream')
  t.notMatch(upstream.received().join(''), /\/admin/)
  return text
}

for (const [status, body] of [
  ['200 OK', 'fine'],
  ['204 No Content', ''],
  ['400 Bad Request', 'no'],
  ['403 Forbidden', 'not you'],
  ['426 Upgrade Required', 'version'],
  ['500 Internal Server Error', 'oh'],
] as const) {
  t.test(`an upstream that answers ${status} is relayed, and its connection is not joined`, async (t) => {
    const length = status.startsWith('204') ? '' : `content-length: ${body.length}\r\n`
    const text = await smuggle(t, `HTTP/1.1 ${status}\r\nx-own: words\r\nupgrade: websocket\r\n${length}\r\n${body}`)
    t.match(text, new RegExp(`^HTTP/1\\.1 ${status}\r\n`))
    t.match(text, /\r\nx-own: words\r\n/)
    t.match(text, /\r\nconnection: close\r\n/i)
    t.notMatch(text, /upgrade:/i)
    t.ok(text.endsWith(`\r\n\r\n${body}`))
  })
}

t.test('a long and a chunked answer are relayed whole', async (t) => {
  const body = 'x'.repeat(3 * 1024 * 1024)
  const long = await smuggle(t, `HTTP/1.1 403 Forbidden\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  t.equal(long.length - long.indexOf('\r\n\r\n') - 4, body.length)
  const chunked = await smuggle(t, 'HTTP/1.1 403 Forbidden\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n')
  t.match(chunked, /\r\n\r\n3\r\nabc\r\n0\r\n\r\n$/)
})

const switched = (lines: string): string => `HTTP/1.1 101 Switching Protocols\r\n${lines}\r\n`
const proof = `Sec-WebSocket-Accept: ${accept}\r\n`
const falseAnswers: Readonly<Record<string, string>> = {
  'without a proof': switched('Connection: Upgrade\r\nUpgrade: websocket\r\n'),
  'with the proof of another key': switched(
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: HSmrc0sMlYUkAGmm5OPpG2HaGWk=\r\n',
  ),
  'with two proofs': switched(`Connection: Upgrade\r\nUpgrade: websocket\r\n${proof}${proof}`),
  'to another protocol': switched(`Connection: Upgrade\r\nUpgrade: h2c\r\n${proof}`),
  'to two protocols': switched(`Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n${proof}`),
  'without Upgrade': switched(`Connection: Upgrade\r\n${proof}`),
  'without Connection': switched(`Upgrade: websocket\r\n${proof}`),
  bare: switched(''),
}
for (const [what, says] of Object.entries(falseAnswers)) {
  t.test(`a 101 ${what} is 503, and its connection is not joined`, async (t) => {
    t.match(await smuggle(t, `${says}HTTP/1.1 200 OK\r\n\r\n`), /^HTTP\/1\.1 503 .*"code":"upstream_unavailable"/s)
  })
}

t.test('a handshake whose key is not passed on joins nothing', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => {
    // The proof of the key "undefined".
    const proof = 'Sec-WebSocket-Accept: gH2cR3x4MfGXKljgIwL3fMYv0sY='
    socket.write(switched(`Connection: Upgrade\r\nUpgrade: websocket\r\n${proof}\r\n`))
  })
  const gateway = await startTestGateway(t, { routes: [socketRoute], upstreams: { platform: { url: upstream.url } } })
  const client = await openRawClient(t, gateway.public)
  client.send(handshake().replace('Connection: Upgrade', 'Connection: Upgrade, Sec-WebSocket-Key'))
  t.match(await client.closed(), /^HTTP\/1\.1 503 /)
  t.notMatch(upstream.received()[0], /Sec-WebSocket-Key/i)
})

t.test('on a route that does not say websocket the upstream is not asked, and a 101 unasked is 503', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nplain')
  })
  const gateway = await startTestGateway(t, { routes: [openRoute], upstreams: { platform: { url: upstream.url } } })
  const client = await openRawClient(t, gateway.public)
  client.send(handshake())
  t.match(await client.closed(), /^HTTP\/1\.1 200 OK\r\n.*\r\n\r\nplain$/s)
  t.notMatch(upstream.received()[0], /upgrade/i)

  const says = switched(`Connection: Upgrade\r\nUpgrade: websocket\r\n${proof}`)
  t.match(await smuggle(t, says, openRoute), /^HTTP\/1\.1 503 /)
})

t.test('a handshake that is refused here reaches no upstream, nor does what comes behind it', async (t) => {
  const upstream = await startRawUpstream(t, () => {})
  const gateway = await startTestGateway(t, {
    routes: [{ ...socketRoute, access: 'authenticated' }],
    upstreams: { platform: { url: upstream.url } },
  })
  for (const [bytes, status] of [
    [handshake(), 401],
    [handshake('//'), 400],
    [handshake().replace('Host: h\r\n', ''), 400],
    [handshake('/x', `X-Long: ${'x'.repeat(25_000)}\r\n`), 431],
  ] as const) {
    const client = await openRawClient(t, gateway.public)
    client.send(bytes + smuggled)
    const text = await client.closed()
    t.match(text, new RegExp(`^HTTP/1\\.1 ${status} .*\r\nconnection: close\r\n`, 'is'))
    t.equal(text.match(/HTTP\/1\.1 /g)?.length, 1, 'one answer')
  }
  t.equal(upstream.sockets().length, 0)
})
