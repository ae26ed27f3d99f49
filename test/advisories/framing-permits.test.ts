import { Agent } from 'node:http'
import t from 'tap'
import { type Call, call, callRaw } from '../support/client.ts'
import { openRoute, startTestGateway } from '../support/gateway.ts'
import { socketRoute } from '../support/websocket.ts'
import { oauth, startTestWorld } from '../support/world.ts'

// Some proxies copy every header of a permit to the client's request: Gateway API's `ExternalAuth` with an empty
// `allowedResponseHeaders`, Envoy with `.*`, haproxy-auth-request with `*`. The permit's `content-length: 0` then made a
// backend read the body of a POST as a further request, which was never judged.

const world = await startTestWorld(t)
const { users, organizations } = world
const member = oauth(users.member)
const guarded = { ...openRoute, access: 'authenticated' }

const gateway = await startTestGateway(t, {
  world,
  settings: { cors: { origins: ['https://app.example'] } },
  upstreams: { data: { credentials: 'forward' }, files: { cookies: 'strip' } },
  rateLimits: { hour: { requests: 9, seconds: 3_600 } },
  routes: [
    guarded,
    { ...openRoute, id: 'public', match: { path: '/public/*' } },
    { ...socketRoute, access: 'authenticated', id: 'socket', match: { path: '/socket' } },
    { ...guarded, id: 'limited', match: { path: '/limited' }, rateLimit: 'hour' },
    { ...guarded, id: 'data', match: { path: '/data' }, upstream: 'data' },
    { ...guarded, id: 'files', match: { path: '/files' }, upstream: 'files' },
    {
      ...guarded,
      id: 'owned',
      match: { methods: ['GET'], path: '/users/me' },
      upstream: undefined,
      answer: 'users.me',
    },
  ],
})

const agent = new Agent({ keepAlive: true })
t.teardown(() => agent.destroy())

/** The lines of a permit, by their names; a name on two lines would be lost. */
async function permit(wanted: Call): Promise<Readonly<Record<string, string>>> {
  const { status, rawHeaders } = await call(gateway.decision, { agent, ...wanted })
  t.equal(status, 200, wanted.path)
  const names = rawHeaders.filter((_, index) => index % 2 === 0)
  t.equal(new Set(names).size, names.length, 'each name stands on one line')
  return Object.fromEntries(names.map((name, index) => [name, rawHeaders[2 * index + 1] ?? '']))
}

const requestId = { 'x-request-id': 'one' }
const about = (method: string, target: string) => ({ 'x-original-method': method, 'x-original-uri': target })

const ofMember = {
  'x-gateway-identity': /^[\w-]+\.[\w-]+\.[\w-]+$/,
  'x-organization-id': String(organizations.acme.id),
  ...requestId,
  // It keeps caches from storing a permit.
  'cache-control': 'no-store',
}
/** HTTP/1.1 finds the end of a response by it, and needs none for HEAD. */
const length = { 'content-length': '0' }
const toRemove = 'x-envoy-auth-headers-to-remove'
const credentials = 'authorization,x-oauth-access-token'
const framing = 'content-length,transfer-encoding,trailer,keep-alive,proxy-connection,cache-control'
const switching = 'connection,upgrade,http2-settings'

for (const [path, more] of [
  ['/authorize', {}],
  ['/authorize?statuses=nginx', { 'x-gateway-status': '200' }],
  ['/envoy/x', { [toRemove]: `${credentials},${framing},${switching}` }],
  ['/envoy-named/x', { [toRemove]: credentials }],
] as const)
  for (const method of ['GET', 'POST', 'HEAD'])
    t.test(`a permit of ${method} ${path} has these lines and no other`, async (t) => {
      const headers = { ...about(method, '/x'), ...member, ...requestId, origin: 'https://app.example' }
      const lines = await permit({ method, path, headers })
      const expected = { ...ofMember, ...more, ...(method !== 'HEAD' && length) }
      t.match(lines, expected)
      t.same(Object.keys(lines).sort(), Object.keys(expected).sort())
    })

t.test('the lines that Envoy removes follow from the route and its upstream', async (t) => {
  const removed = async (path: string, headers = {}) =>
    (await permit({ path, headers: { ...member, ...headers } }))[toRemove]
  for (const [target, clients, isWebSocket] of [
    ['/public/x', `x-gateway-identity,x-organization-id,${credentials}`, false],
    ['/socket', credentials, true],
    ['/data', '', false],
    ['/files', `${credentials},cookie`, false],
    // The gateway judges this request again, by the client's own credentials.
    ['/users/me', '', false],
  ] as const) {
    const all = [clients, framing, ...(isWebSocket ? [] : [switching])].filter((names) => names !== '')
    t.equal(await removed(`/envoy${target}`), all.join(','), target)
    t.equal(await removed(`/envoy-named${target}`), clients === '' ? undefined : clients, target)
  }
})

t.test('a permit tells its proxy what is left of a budget', async (t) => {
  for (const path of ['/authorize', '/envoy/limited', '/envoy-named/limited']) {
    const lines = await permit({ path, headers: { ...about('GET', '/limited'), ...member, ...requestId } })
    const expected = [...Object.keys({ ...ofMember, ...length }), 'ratelimit', 'ratelimit-policy']
    t.same(
      Object.keys(lines)
        .filter((name) => name !== toRemove)
        .sort(),
      expected.sort(),
    )
  }
})

t.test('the end of a connection is told where HTTP needs it, and nowhere else', async (t) => {
  for (const [version, asked, said] of [
    ['1.1', 'connection: close\r\n', ['Connection: close']],
    ['1.0', '', ['Connection: close']],
    ['1.0', 'connection: keep-alive\r\n', ['Connection: keep-alive']],
    ['1.1', '', []],
  ] as const) {
    const head = `GET /envoy/public/x HTTP/${version}\r\nHost: h\r\n${asked}\r\n`
    const lines = (await callRaw(gateway.decision, head)).split('\r\n')
    t.same(
      lines.filter((line) => /^(?:connection|keep-alive|date):/i.test(line)),
      said,
    )
  }
})

t.test('a refusal goes to the client, and keeps its date', async (t) => {
  const { status, headers } = await call(gateway.decision, { path: '/envoy/x', agent })
  t.equal(status, 401)
  t.ok(headers.date)
  t.equal(headers[toRemove], undefined)
})

t.test('no other path is one of a prefix, and none is another’s', async (t) => {
  for (const path of [
    '/envoy',
    '/envoy-named',
    '/envoynamed/x',
    '/envoy-named?x',
    '/envoy-/x',
    '/envoy-namedx/x',
    '/envoy%2dnamed/x',
    '/Envoy-named/x',
    '/envoy?/x',
  ])
    t.equal((await call(gateway.decision, { path, headers: member })).status, 404, path)
  // A path that a client chose below `/envoy` is judged whole.
  for (const path of ['/envoy/envoy-named/x', '/envoy/-named/x', '/envoy-named/envoy/x'])
    t.match(
      (await permit({ path, headers: member }))[toRemove],
      path.startsWith('/envoy/') ? framing : credentials,
      path,
    )
  for (const path of ['/envoy//envoy-named/x', '/envoy/../envoy-named/x', '/envoy-named//x', '/envoy-named/../x'])
    t.equal((await call(gateway.decision, { path, headers: member })).status, 400, path)
})
