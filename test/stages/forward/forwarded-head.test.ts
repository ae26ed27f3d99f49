import t from 'tap'
import { type Call, call, callRaw } from '../../support/client.ts'
import { openRawClient, openRoute, startRawUpstream, startTestGateway } from '../../support/gateway.ts'
import { oauth, startTestWorld } from '../../support/world.ts'

const world = await startTestWorld(t)
const { member } = world.users

// Tomcat takes 8 KiB, gunicorn as much for a line, and Node 16 KiB: an upstream's limit is smaller than the gateway's.
const limit = 4_096

/** The heads that the upstream got, each with its blank line. */
const heads: string[] = []

const upstream = await startRawUpstream(t, (socket, soFar) => {
  if (!soFar.endsWith('\r\n\r\n') && !soFar.endsWith('a body')) return
  const end = soFar.lastIndexOf('\r\n\r\n') + 4
  const head = soFar.slice(Math.max(0, ...['GET /', 'POST /'].map((start) => soFar.lastIndexOf(start))), end)
  heads.push(head)
  if (head.includes('upgrade: ')) socket.end('HTTP/1.1 400 No\r\ncontent-length: 0\r\n\r\n')
  else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
})

const owned = { ...openRoute, access: 'authenticated' }
const gateway = await startTestGateway(t, {
  world,
  routes: [
    { ...openRoute, websocket: true },
    { ...owned, id: 'mine', match: { path: '/mine/*' }, websocket: true },
    { ...owned, id: 'bound', match: { path: '/bound/*' }, upstream: 'files' },
    { ...openRoute, id: 'other', match: { path: '/other/*' }, upstream: 'agents' },
    { ...openRoute, id: 'bare', match: { path: '/bare/*' }, upstream: 'data' },
    { ...openRoute, id: 'model', match: { path: '/model/*' }, upstream: 'platform', surface: 'model' },
  ],
  upstreams: {
    platform: { url: upstream.url, headBytes: limit },
    files: { url: upstream.url, headBytes: limit, bind: true, preserveHost: true },
    agents: { url: upstream.url },
    data: { url: upstream.url, headBytes: limit, cookies: 'strip' },
  },
})

const lastHead = (): string => heads.at(-1) ?? ''
const countAll = (): readonly number[] => [upstream.sockets().length, heads.length]

const told = { code: 'forwarded_head_too_large' }

for (const [what, wanted] of Object.entries<Call>({
  'a public request': { path: '/open' },
  'a request with a query': { path: '/open/x?y=z' },
  'a request with identity': { path: '/mine/x', headers: oauth(member) },
  'a request with bound identity': { path: '/bound/x', headers: oauth(member) },
  'a request with a body': { method: 'POST', path: '/mine/x', headers: oauth(member), body: 'a body' },
  'a handshake': {
    path: '/mine/x',
    headers: {
      ...oauth(member),
      connection: 'upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    },
  },
}))
  t.test(`${what} passes at the upstream’s limit, and is 431 a byte above`, async (t) => {
    const send = (bytes: number) =>
      call(gateway.public, { ...wanted, headers: { ...wanted.headers, 'x-fill': 'a'.repeat(bytes) } })
    await send(10)
    const fitting = 10 + limit - lastHead().length
    await send(fitting)
    t.equal(lastHead().length, limit)
    const before = countAll()
    const refused = await send(fitting + 1)
    t.match({ ...refused, code: refused.json().error.code }, { status: 431, ...told })
    t.strictSame(countAll(), before, 'the upstream is not contacted, and its connections stay open')
  })

t.test('an upstream without the limit takes as much as the gateway does', async (t) => {
  const headers = { 'x-fill': 'a'.repeat(22_000) }
  t.equal((await call(gateway.public, { path: '/other/x', headers })).status, 200)
})

t.test('lines that the gateway removes do not count', async (t) => {
  const long = oauth({ jwt: 'a'.repeat(16_000) })
  t.equal((await call(gateway.public, { path: '/open', headers: long })).status, 200, 'the credential')
  const cookie = `c=${'a'.repeat(16_000)}`
  t.equal((await call(gateway.public, { path: '/bare/x', headers: { cookie } })).status, 200, 'cookies of no use')
  t.equal((await call(gateway.public, { path: '/open', headers: { cookie } })).status, 431)
})

t.test('a client that waits for 100 is refused before it sends its body', async (t) => {
  const client = await openRawClient(t, gateway.public)
  const head = `POST /open HTTP/1.1\r\nhost: gateway\r\ncontent-length: 6\r\nexpect: 100-continue\r\nx-fill: ${'a'.repeat(limit)}\r\n\r\n`
  client.send(head)
  t.match(await client.until(/"code":"forwarded_head_too_large"/), /^HTTP\/1\.1 431 /)
})

t.test('a body of unknown length counts as chunks', async (t) => {
  const chunked = (bytes: number) =>
    callRaw(
      gateway.public,
      `POST /open HTTP/1.1\r\nhost: gateway\r\ntransfer-encoding: chunked\r\nx-fill: ${'a'.repeat(bytes)}\r\n\r\n0\r\n\r\n`,
    )
  t.match(await chunked(10), /^HTTP\/1\.1 200 /)
  const { length } = lastHead().replace(/content-length: 0\r\n/, 'transfer-encoding: chunked\r\n')
  t.match(await chunked(10 + limit - length), /^HTTP\/1\.1 200 /)
  t.match(await chunked(11 + limit - length), /^HTTP\/1\.1 431 /)
})

t.test('the model surface tells it in its own envelope', async (t) => {
  const answer = await call(gateway.public, { path: '/model/x', headers: { 'x-fill': 'a'.repeat(limit) } })
  t.match({ ...answer, ...answer.json() }, { status: 431, error: told })
})

t.test('the refusal has its cause in the metrics', async (t) => {
  const { text } = await call(gateway.admin, { path: '/metrics' })
  t.match(text, /sallyport_decisions_total\{[^}]*cause="forwarded_head_too_large"[^}]*\} [1-9]/)
})

t.test('clusters have the same limit', async (t) => {
  const settings = { cluster: { networks: { allow: ['127.0.0.0/8'] }, headBytes: limit } }
  const { public: origin } = await startTestGateway(t, { world, settings })
  const ask = (bytes: number) =>
    call(origin, {
      path: `/clusters/${world.clusters.healthy}/proxy/x`,
      headers: { ...oauth(member), 'x-fill': 'a'.repeat(bytes) },
    })
  t.equal((await ask(10)).status, 200)
  const refused = await ask(limit)
  t.match({ ...refused, ...refused.json() }, { status: 431, error: told })
})
