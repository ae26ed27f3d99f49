import { join } from 'node:path'
import t, { type Test } from 'tap'
import { makeAuditFolder, readAudit } from '../support/audit.ts'
import { type Call, call } from '../support/client.ts'
import { openRoute, startTestGateway, until } from '../support/gateway.ts'

const page = 'https://app.example'
const anyPort = { host: '127.0.0.1', port: 0 }

const onPlatform = { surface: 'platform', upstream: 'platform' }
const routes = [
  {
    id: 'read',
    match: { methods: ['GET'], path: '/things/:id' },
    ...onPlatform,
    require: { ability: 'datasets:read' },
  },
  {
    id: 'write',
    match: { methods: ['DELETE', 'PATCH'], path: '/things/:id' },
    ...onPlatform,
    require: { role: 'org-owner' },
  },
  { id: 'admin', match: { methods: ['GET'], path: '/things/admin' }, ...onPlatform, require: { role: 'org-owner' } },
  { id: 'hosted', match: { methods: ['PUT'], host: 'files.example', path: '/files/:id' }, ...onPlatform },
  { id: 'socket', match: { methods: ['GET'], path: '/socket' }, ...onPlatform, websocket: true },
  {
    id: 'counted',
    match: { methods: ['GET'], path: '/counted' },
    ...onPlatform,
    access: 'public',
    rateLimit: 'few',
  },
  {
    id: 'cluster',
    match: { methods: ['GET'], path: '/clusters/:cluster/proxy/*' },
    surface: 'platform',
    cluster: { param: 'cluster' },
    require: { role: 'org-member' },
  },
]

const rateLimits = { few: { by: 'address', requests: 1, seconds: 3_600 } }

const asWords = (headers: Words): NonNullable<Call['headers']> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, typeof value === 'string' ? value : [...value]]],
    ),
  )

type Words = Readonly<Record<string, string | readonly string[] | undefined>>

/** Each dialect by which a proxy tells an original request. */
const dialects: Readonly<Record<string, (method: string, uri: string, headers: Words) => Call>> = {
  ForwardAuth: (method, uri, headers) => ({
    path: '/authorize',
    headers: asWords({ 'x-forwarded-method': method, 'x-forwarded-uri': uri, ...headers }),
  }),
  auth_request: (method, uri, headers) => ({
    path: '/authorize?statuses=nginx',
    headers: asWords({ 'x-original-method': method, 'x-original-uri': uri, ...headers }),
  }),
  ext_authz: (method, uri, headers) => ({ method, path: `/envoy${uri}`, headers: asWords(headers) }),
  'ext_authz with named headers': (method, uri, headers) => ({
    method,
    path: `/envoy-named${uri}`,
    headers: asWords(headers),
  }),
}

const preflight = { origin: page, 'access-control-request-method': 'DELETE' }

async function start(t: Test, preflights: 'refuse' | 'permit' | undefined, cors: object | 'off' = { origins: [page] }) {
  const sink = join(makeAuditFolder(t), 'audit.jsonl')
  const gateway = await startTestGateway(t, {
    routes,
    rateLimits,
    settings: {
      audit: { sink },
      listeners: { public: anyPort, decision: { ...anyPort, ...(preflights && { preflights }) }, admin: anyPort },
      ...(cors !== 'off' && { cors }),
    },
  })
  const ask = async (dialect: string, method: string, uri: string, headers: Words = {}) => {
    const question = dialects[dialect]?.(method, uri, headers)
    if (!question) throw new Error(`no dialect ${dialect}`)
    const answer = await call(gateway.decision, question)
    return { ...answer, status: Number(answer.headers['x-gateway-status'] ?? answer.status) }
  }
  return { gateway, ask, sink }
}

for (const dialect of Object.keys(dialects)) {
  t.test(`${dialect}: a preflight is 405, and permitted only by listeners.decision.preflights`, async (t) => {
    for (const preflights of [undefined, 'refuse'] as const) {
      const { ask } = await start(t, preflights)
      const answer = await ask(dialect, 'OPTIONS', '/things/7', preflight)
      t.equal(answer.status, 405, `preflights: ${preflights}`)
      t.equal(answer.headers['access-control-allow-origin'], page)
    }
    const { ask, sink } = await start(t, 'permit')
    const answer = await ask(dialect, 'OPTIONS', '/things/7', { ...preflight, cookie: 'session=1' })
    t.match(answer, { status: 200, text: '' })
    for (const name of Object.keys(answer.headers))
      t.notMatch(name, /^access-control|^x-gateway-identity|^x-organization|^ratelimit|^vary/, 'none to copy')
    const removed = String(answer.headers['x-envoy-auth-headers-to-remove'] ?? '').split(',')
    if (dialect.startsWith('ext_authz'))
      for (const name of [
        ...['x-gateway-identity', 'x-organization-id', 'authorization', 'x-oauth-access-token', 'cookie'],
        ...(dialect === 'ext_authz' ? ['content-length', 'transfer-encoding', 'connection', 'upgrade'] : []),
      ])
        t.ok(removed.includes(name), name)
    // Lines leave for the file behind the answer.
    await until(() => readAudit(sink).length > 0, 'the line')
    const [line] = readAudit(sink)
    t.match(line, {
      ...{ listener: 'decision', outcome: 'allowed', status: 200, reason: 'preflight', cause: null, subject: null },
      ...{ credential: null, organizationId: null, route: null, method: 'OPTIONS', path: '/things/7' },
    })
  })

  t.test(`${dialect}: all but a bare preflight is judged as with refuse`, async (t) => {
    const { ask } = await start(t, 'permit')
    const expected: readonly (readonly [what: string, status: number, method: string, uri: string, headers: Words])[] =
      [
        ['an unknown path', 404, 'OPTIONS', '/nowhere', preflight],
        ['a method that the path lacks', 405, 'OPTIONS', '/things/7', with_('POST')],
        ['another case of a method', 405, 'OPTIONS', '/things/7', with_('delete')],
        ['a method with a blank', 405, 'OPTIONS', '/things/7', with_('DELETE X')],
        ['CONNECT', 405, 'OPTIONS', '/things/7', with_('CONNECT')],
        ['TRACE', 405, 'OPTIONS', '/things/7', with_('TRACE')],
        ['OPTIONS', 405, 'OPTIONS', '/things/7', with_('OPTIONS')],
        ['no method', 405, 'OPTIONS', '/things/7', { origin: page }],
        ['two methods', 405, 'OPTIONS', '/things/7', { origin: page, 'access-control-request-method': ['GET', 'GET'] }],
        ['no origin', 405, 'OPTIONS', '/things/7', { 'access-control-request-method': 'DELETE' }],
        ['another origin', 405, 'OPTIONS', '/things/7', { ...preflight, origin: 'https://evil.example' }],
        ['the origin null', 405, 'OPTIONS', '/things/7', { ...preflight, origin: 'null' }],
        ['two origins', 405, 'OPTIONS', '/things/7', { ...preflight, origin: [page, page] }],
        [
          'a foreign second origin',
          405,
          'OPTIONS',
          '/things/7',
          { ...preflight, origin: [page, 'https://evil.example'] },
        ],
        ['a GET', 401, 'GET', '/things/7', preflight],
        ['a DELETE', 401, 'DELETE', '/things/7', preflight],
        ['a HEAD', 401, 'HEAD', '/things/7', preflight],
        ['a path of another host', 404, 'OPTIONS', '/files/7', with_('PUT')],
        ['a stricter path in another case', 400, 'OPTIONS', '/things/ADMIN', with_('GET')],
        ['a credential', 405, 'OPTIONS', '/things/7', { ...preflight, authorization: 'Bearer oat_x' }],
        ['any scheme', 405, 'OPTIONS', '/things/7', { ...preflight, authorization: 'Basic eDp5' }],
        ['a JWT', 405, 'OPTIONS', '/things/7', { ...preflight, 'x-oauth-access-token': 'x' }],
        ['a short name', 405, 'OPTIONS', '/things/7', { ...preflight, 'x-http-method': 'DELETE' }],
        ['another method', 405, 'OPTIONS', '/things/7', { ...preflight, 'x-http-method-override': 'DELETE' }],
        ['in another spelling', 405, 'OPTIONS', '/things/7', { ...preflight, x_http_method_override: 'DELETE' }],
        ['another method yet', 405, 'OPTIONS', '/things/7', { ...preflight, 'x-method-override': 'DELETE' }],
        ['another target', 405, 'OPTIONS', '/things/7', { ...preflight, 'x-rewrite-url': '/admin' }],
        ['another host', 405, 'OPTIONS', '/things/7', { ...preflight, 'x-host': 'evil.example' }],
        ['a step over checks', 405, 'OPTIONS', '/things/7', { ...preflight, 'x-middleware-subrequest': 'm' }],
      ]
    for (const [what, status, method, uri, headers] of expected)
      t.equal((await ask(dialect, method, uri, headers)).status, status, what)
    for (const method of ['GET', 'HEAD', 'PATCH'])
      t.equal((await ask(dialect, 'OPTIONS', '/things/7', with_(method))).status, 200, method)
  })
}

function with_(method: string): Words {
  return { ...preflight, 'access-control-request-method': method }
}

t.test('content makes no preflight', async (t) => {
  const { gateway } = await start(t, 'permit')
  const bodies: readonly Pick<Call, 'headers' | 'body'>[] = [
    { body: 'x' },
    { headers: { 'transfer-encoding': 'chunked' }, body: 'x' },
  ]
  for (const { body, headers } of bodies) {
    const question = { method: 'OPTIONS', path: '/envoy/things/7', headers: { ...preflight, ...headers } }
    t.equal((await call(gateway.decision, { ...question, ...(body && { body }) })).status, 405)
  }
  const empty = { method: 'OPTIONS', path: '/envoy/things/7', headers: { ...preflight, 'content-length': '0' } }
  t.equal((await call(gateway.decision, empty)).status, 200)
})

t.test('under the prefixes for Envoy the headers of other proxies are the client’s words', async (t) => {
  const { ask } = await start(t, 'permit')
  for (const name of ['x-original-method', 'x-forwarded-method', 'x-original-url', 'x-forwarded-uri', 'upgrade'])
    for (const dialect of ['ext_authz', 'ext_authz with named headers'])
      t.equal((await ask(dialect, 'OPTIONS', '/things/7', { ...preflight, [name]: 'DELETE' })).status, 405, name)
})

t.test('a route of a host is known on its host alone', async (t) => {
  const { ask } = await start(t, 'permit')
  const hosts: readonly (readonly [host: string, status: number])[] = [
    ['files.example', 200],
    ['FILES.example:8443', 200],
    ['other.example', 404],
  ]
  for (const [host, status] of hosts) {
    const told = { ...with_('PUT'), 'x-forwarded-host': host }
    t.equal((await ask('ForwardAuth', 'OPTIONS', '/files/7', told)).status, status, host)
    t.equal((await ask('ext_authz', 'OPTIONS', '/files/7', { ...with_('PUT'), host })).status, status, host)
  }
})

t.test('a permitted preflight asks neither the directory nor a rate limit, and joins no socket', async (t) => {
  const { ask } = await start(t, 'permit')
  for (let times = 0; times < 3; times += 1)
    t.equal((await ask('ForwardAuth', 'OPTIONS', '/counted', with_('GET'))).status, 200)
  // The database of this gateway is nowhere, so that a look at the cluster would be 503.
  t.equal((await ask('ForwardAuth', 'OPTIONS', '/clusters/7/proxy/x', with_('GET'))).status, 200)
  const socket = await ask('ext_authz', 'OPTIONS', '/socket', with_('GET'))
  t.match(socket.headers['x-envoy-auth-headers-to-remove'], /\bconnection,upgrade\b/)
})

t.test('metrics count it as a preflight of the public listener: allowed, without a route', async (t) => {
  const { gateway, ask, sink } = await start(t, 'permit')
  t.equal((await ask('ForwardAuth', 'OPTIONS', '/things/7', preflight)).status, 200)
  t.equal((await call(gateway.public, { method: 'OPTIONS', path: '/things/7', headers: preflight })).status, 204)
  const { text } = await call(gateway.admin, { path: '/metrics' })
  t.match(text, /sallyport_decisions_total\{[^}]*route="none"[^}]*reason="allowed"[^}]*\} 2\n/)
  await until(() => readAudit(sink).length > 1, 'the lines')
  t.match(
    readAudit(sink).map(({ listener, reason, outcome }) => ({ listener, reason, outcome })),
    ['decision', 'public'].map((listener) => ({ listener, reason: 'preflight', outcome: 'allowed' })),
  )
})

t.test('with cors off permit permits none, and * permits every origin', async (t) => {
  const { ask } = await start(t, 'permit', 'off')
  t.equal((await ask('ForwardAuth', 'OPTIONS', '/things/7', preflight)).status, 405)
  const open = await start(t, 'permit', { origins: ['*'] })
  for (const origin of [page, 'null'])
    t.equal((await open.ask('ForwardAuth', 'OPTIONS', '/things/7', { ...preflight, origin })).status, 200, origin)
})

t.test('another word than refuse and permit is refused at load', async (t) => {
  await t.rejects(start(t, 'pass' as 'permit'), { message: /listeners\.decision\.preflights/ })
})

const options = { ...openRoute, id: 'options', match: { methods: ['OPTIONS'], path: '/*' } }

async function startOwn(t: Test, more: readonly Readonly<Record<string, unknown>>[], cors?: unknown) {
  const settings = cors === undefined ? {} : { cors }
  const gateway = await startTestGateway(t, { routes: [...routes, ...more], rateLimits, settings })
  return async (uri: string, headers: Words = preflight) => {
    const told = { 'x-forwarded-method': 'OPTIONS', 'x-forwarded-uri': uri, ...headers }
    const [decision, publicly] = await Promise.all([
      call(gateway.decision, { path: '/authorize', headers: asWords(told) }),
      call(gateway.public, { method: 'OPTIONS', path: uri, headers: asWords(headers) }),
    ])
    return { decision: decision.status, public: publicly.status }
  }
}

t.test('with cors off a public OPTIONS /* serves the paths of other routes, too', async (t) => {
  const ask = await startOwn(t, [options])
  // The backend is nowhere: 503 is an OPTIONS that was forwarded.
  for (const uri of ['/things/7', '/things/admin', '/clusters/7/proxy/x', '/nowhere'])
    t.same(await ask(uri), { decision: 200, public: 503 }, uri)
  t.same(await ask('/files/7', { ...preflight, host: 'files.example' }), { decision: 200, public: 503 }, 'of a host')
})

t.test('with cors on it does not, and preflights stay 405 at the decision listener', async (t) => {
  const ask = await startOwn(t, [options], { origins: [page] })
  t.same(await ask('/things/7'), { decision: 405, public: 204 })
  t.same(await ask('/things/7', { ...preflight, origin: 'https://evil.example' }), { decision: 405, public: 405 })
})

t.test('only a public /* that names OPTIONS opens other paths to it', async (t) => {
  const all = await startOwn(t, [openRoute])
  t.same(await all('/things/7'), { decision: 405, public: 405 }, 'a route of all methods')
  const guarded = await startOwn(t, [{ ...options, access: undefined, require: { role: 'org-owner' } }])
  t.same(await guarded('/things/7'), { decision: 405, public: 405 }, 'a guarded route')
  const nearer = {
    ...options,
    id: 'nearer',
    access: undefined,
    require: { role: 'org-owner' },
    match: { methods: ['OPTIONS'], path: '/things/*' },
  }
  const near = await startOwn(t, [options, nearer])
  t.same(await near('/things/7'), { decision: 405, public: 405 }, 'a nearer wildcard that is guarded')
})

t.test('a header that a proxy in front sets neither bars a preflight nor stays on it', async (t) => {
  const ambient = 'cf-access-jwt-assertion'
  const { decision } = await startTestGateway(t, {
    settings: {
      cors: { origins: [page] },
      listeners: { public: anyPort, admin: anyPort, decision: { ...anyPort, preflights: 'permit' } },
      issuers: [{ issuer: 'http://127.0.0.1:9', audience: 'a', tokens: { headers: [ambient] } }],
    },
    routes: [openRoute],
    upstreams: { platform: { url: 'http://127.0.0.1:9' } },
  })
  const headers = { origin: page, 'access-control-request-method': 'GET', [ambient]: 'x.y.z' }
  const answer = await call(decision, { method: 'OPTIONS', path: '/envoy/things', headers })
  t.equal(answer.status, 200)
  t.ok(String(answer.headers['x-envoy-auth-headers-to-remove']).split(',').includes(ambient))
})
