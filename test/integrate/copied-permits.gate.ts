import { connect } from 'node:http2'
import t, { type Test } from 'tap'
import { findFreePort } from '../../demo/free-port.ts'
import { call, callRaw } from '../support/client.ts'
import { openRawClient, openRoute, startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { sha256, startParsingBackend } from '../support/parsed-requests.ts'
import { handshake, socketRoute, switching } from '../support/websocket.ts'
import { type Places, placeExample, writeFolder } from './ingress/examples.ts'
import { type Program, type ProxyName, testProxy } from './ingress/programs.ts'
import { startProgram } from './ingress/start-program.ts'
import { methodAndHost, startBareNginx, startCaddy, startEnvoy, startHaproxy, startTraefik } from './ingress/stock.ts'

// The permits of `framing-permits.test.ts`, through each proxy that is told to copy everything from them.
const gateway = await startTestGateway(t, {
  routes: [openRoute, { ...socketRoute, id: 'socket', match: { path: '/socket' } }],
})

type Start = (t: Test, program: Program, places: Places) => Promise<unknown>

const everything = '{ patterns: [{ safe_regex: { regex: ".*" } }] }'
const upgrades = 'upgrade_configs: [{ upgrade_type: websocket }]'
const envoys: Readonly<Record<string, Start>> = {
  'over the request’s own': (t, program, places) =>
    startEnvoy(t, program, places, { copied: `{ allowed_upstream_headers: ${everything} }`, more: upgrades }),
  'beside the request’s own': (t, program, places) =>
    startEnvoy(t, program, places, { copied: `{ allowed_upstream_headers_to_append: ${everything} }`, more: upgrades }),
}

/** The lines that a permit has or had, and those that a further proxy might add. */
const names = [
  'Cache-Control',
  'Connection',
  'Date',
  'Keep-Alive',
  'RateLimit',
  'TE',
  'Trailer',
  'Transfer-Encoding',
  'Upgrade',
  'X-Gateway-Identity',
  'X-Gateway-Status',
  'X-Organization-Id',
  'X-Request-Id',
]

/** nginx copies what lines name. `Content-Length` is not among them, since HTTP needs it; its page warns of it. */
const nginxLines = names.flatMap((name) => {
  const variable = name.replaceAll('-', '_').toLowerCase()
  return [
    `auth_request_set $copied_${variable} $upstream_http_${variable};`,
    `proxy_set_header ${name} $copied_${variable};`,
  ]
})

const copying: readonly Readonly<{ proxy: ProxyName; how: string; start: Start }>[] = [
  ...Object.entries(envoys).map(([how, start]) => ({ proxy: 'envoy' as const, how, start })),
  ...['', 'experimental: { fastProxy: {} }'].map((more) => ({
    proxy: 'traefik' as const,
    how: `by a pattern ${more}`,
    start: (t: Test, program: Program, places: Places) =>
      startTraefik(t, program, places, 'authResponseHeadersRegex: ".*"', more),
  })),
  {
    proxy: 'caddy',
    how: 'by names, the length too',
    start: (t, program, places) => startCaddy(t, program, places, [...names, 'Content-Length'].join(' ')),
  },
  {
    proxy: 'nginx',
    how: 'by names',
    start: (t, program, places) => startBareNginx(t, program, places, methodAndHost, nginxLines.join('\n')),
  },
  {
    proxy: 'haproxy',
    how: 'by its script, the length too',
    start: (t, program, places) => startHaproxy(t, program, places, 'auth-intercept sallyport_decision /authorize'),
  },
]

/** Starts the proxy in front of the backend, and waits until it leads there. */
async function startFront(t: Test, program: Program, start: Start, backend: string): Promise<string> {
  const places = {
    front: await findFreePort(),
    public: Number(new URL(gateway.public).port),
    decision: Number(new URL(gateway.decision).port),
    backend: Number(new URL(backend).port),
  }
  await start(t, program, places)
  const front = `http://127.0.0.1:${places.front}`
  await until(async () => (await call(front, { path: '/up' })).status === 200, 'it leads somewhere')
  return front
}

/** A body that is a request to a backend which reads another length than the proxy wrote. */
const body = 'GET /admin/smuggled HTTP/1.1\r\nHost: h\r\n\r\n'
const length = { 'content-length': String(body.length) }

/** The requests of each kind of framing, and what a backend must see of each. */
const requests = {
  'a body with a length': { method: 'POST', headers: length, body },
  'a chunked body': { method: 'POST', headers: { 'transfer-encoding': 'chunked' }, body },
  'GET with a body': { method: 'GET', headers: length, body },
  'an empty body': { method: 'POST', headers: { 'content-length': '0' } },
  'neither body nor length': { method: 'GET', headers: {} },
} as const

/** A proxy in front of a backend, and the requests that node:http reads there. */
async function startCopiedPermitFixture(t: Test, program: Program, start: Start) {
  const backend = await startParsingBackend(t)
  const front = await startFront(t, program, start, backend.url)
  const arrivals = () => backend.connections().flatMap((connection) => connection.requests)
  const bytes = () => Buffer.concat(backend.connections().map((connection) => connection.bytes)).toString('latin1')
  return { front, arrivals, bytes, clear: backend.clear }
}

type CopiedPermitFixture = Awaited<ReturnType<typeof startCopiedPermitFixture>>

/** A request arrives once and whole, and so does one that follows: a smuggled request would stand between them. */
async function testArrival(
  t: Test,
  { front, arrivals }: CopiedPermitFixture,
  method: string,
  sent: string,
  ask: () => Promise<number>,
) {
  t.equal(await ask(), 200)
  t.equal((await call(front, { path: '/after' })).status, 200)
  t.same(
    arrivals().map((arrival) => [arrival.method, arrival.target, arrival.bodySha256]),
    [
      [method, '/x', sha256(sent)],
      ['GET', '/after', sha256('')],
    ],
  )
}

for (const { proxy, how, start } of copying)
  testProxy(t, proxy, async (t, program) => {
    const fixture = await startCopiedPermitFixture(t, program, start)
    for (const [name, wanted] of Object.entries(requests))
      t.test(`${name} arrives as one request, if the proxy copies everything ${how}`, async (t) => {
        fixture.clear()
        const sent = 'body' in wanted ? wanted.body : ''
        const ask = async () => (await call(fixture.front, { ...wanted, path: '/x' })).status
        await testArrival(t, fixture, wanted.method, sent, ask)
      })
  })

/** One request over HTTP/2. */
function callHttp2(t: Test, origin: string, headers: Readonly<Record<string, string>>, sent = ''): Promise<number> {
  const session = connect(origin)
  t.teardown(() => session.destroy())
  return new Promise((resolve) => {
    session.on('error', () => resolve(0))
    const stream = session.request(headers, { endStream: false })
    stream.on('response', (answer) => resolve(answer[':status'] ?? 0))
    stream.on('error', () => {})
    stream.on('close', () => resolve(0))
    stream.resume().end(sent)
  })
}

for (const [how, start] of Object.entries(envoys))
  testProxy(t, 'envoy', async (t, program) => {
    const fixture = await startCopiedPermitFixture(t, program, start)
    for (const [name, more] of Object.entries({ 'with a length': length, 'without one': {} }))
      t.test(`a body of HTTP/2 ${name} arrives as one request, if Envoy copies everything ${how}`, async (t) => {
        fixture.clear()
        const headers = { ':method': 'POST', ':path': '/x', ...more }
        await testArrival(t, fixture, 'POST', body, () => callHttp2(t, fixture.front, headers, body))
      })

    t.test('no client leads Envoy to the other prefix', async (t) => {
      fixture.clear()
      await callRaw(fixture.front, `POST -named/x HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
      for (const scheme of ['http', 'other'])
        await callHttp2(t, fixture.front, { ':method': 'POST', ':path': '-named/x', ':scheme': scheme }, body)
      t.same(fixture.arrivals(), [])
    })

    t.test('bytes behind a handshake are a body where the route takes no WebSocket', async (t) => {
      fixture.clear()
      const client = await openRawClient(t, fixture.front)
      client.send(`${handshake('/x')}${body}`)
      await until(() => fixture.bytes().includes('smuggled'), 'the bytes')
      client.socket.destroy()
      t.equal((await call(fixture.front, { path: '/after' })).status, 200)
      t.same(
        fixture.arrivals().map(({ target }) => target),
        ['/after'],
      )
    })

    t.test('Upgrade arrives where the route takes WebSockets, and only there', async (t) => {
      const backend = await startRawUpstream(t, (socket, soFar) => {
        const [head = ''] = soFar.split('\r\n\r\n').slice(-2)
        socket.write(/upgrade: websocket/i.test(head) ? switching : 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
      })
      const front = await startFront(t, program, start, backend.url)
      for (const [path, status] of [
        ['/socket', 101],
        ['/x', 200],
      ] as const) {
        const client = await openRawClient(t, front)
        client.send(handshake(path))
        t.match(await client.until(/\r\n\r\n/), `HTTP/1.1 ${status} `, path)
      }
    })
  })

testProxy(t, 'envoy', async (t, program) => {
  const named = '{ allowed_upstream_headers: { patterns: [{ exact: x-gateway-identity }, { exact: x-request-id }] } }'
  const startGuide: Start = (t, { path }, places) => {
    const folder = writeFolder(t, { 'envoy.yaml': placeExample('envoy.yaml', places) })
    const args = ['-c', 'envoy.yaml', '--disable-hot-restart', '--concurrency', '1', '-l', 'warning']
    return startProgram(t, { path, args, folder, port: places.front })
  }
  for (const [name, start] of Object.entries<Start>({
    'by names under /envoy-named': (t, program, places) =>
      startEnvoy(t, program, places, { prefix: '/envoy-named', copied: named }),
    'as our page says': startGuide,
  })) {
    const fixture = await startCopiedPermitFixture(t, program, start)
    for (const [kind, wanted] of Object.entries(requests))
      t.test(`${kind} keeps its framing, if Envoy copies ${name}`, async (t) => {
        fixture.clear()
        const headers = { ...wanted.headers, 'cache-control': 'no-cache' }
        const sent = 'body' in wanted ? wanted.body : ''
        const ask = async () => (await call(fixture.front, { ...wanted, path: '/x', headers })).status
        await testArrival(t, fixture, wanted.method, sent, ask)
        const [arrival] = fixture.arrivals()
        const told = ['content-length', 'transfer-encoding', 'cache-control']
        t.same(Object.fromEntries(arrival?.headers.filter(([name]) => told.includes(name)) ?? []), headers)
      })
  }
})
