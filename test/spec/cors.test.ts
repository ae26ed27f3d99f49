import t, { type Test } from 'tap'
import { type Call, call } from '../support/client.ts'
import { openRawClient, openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'

const page = 'https://app.example'

const routes = [
  { id: 'read', match: { methods: ['GET'], path: '/things/:id' }, surface: 'platform', upstream: 'platform' },
  {
    id: 'write',
    match: { methods: ['PUT', 'DELETE'], path: '/things/:id' },
    surface: 'platform',
    upstream: 'platform',
  },
  { ...openRoute, match: { methods: ['GET'], path: '/open/*' } },
  { ...openRoute, id: 'options', match: { methods: ['OPTIONS', 'GET'], path: '/own/*' } },
]

/** A backend that allows every origin. */
async function start(t: Test, cors?: Readonly<Record<string, unknown>>, more: Readonly<Record<string, unknown>> = {}) {
  const upstream = await startRawUpstream(t, (socket) => {
    const own = 'access-control-allow-origin: *\r\naccess-control-allow-credentials: true\r\nvary: accept\r\n'
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 2\r\n${own}\r\n{}`)
  })
  const settings = cors ? { cors, ...more } : more
  const gateway = await startTestGateway(t, { settings, routes, upstreams: { platform: { url: upstream.url } } })
  const send = (request: Call) => call(gateway.public, request)
  return { gateway, upstream, send }
}

const preflight = (path: string, headers: Record<string, string | string[]> = {}): Call => ({
  method: 'OPTIONS',
  path,
  headers: { origin: page, 'access-control-request-method': 'PUT', ...headers },
})

t.test('a preflight is answered from the policy’s methods, without a credential', async (t) => {
  const { send, upstream } = await start(t, { origins: [page], maxAgeSeconds: 60 })
  const asked = { 'access-control-request-headers': 'x-oauth-access-token, Content-Type, b@d' }
  const { status, headers, text } = await send(preflight('/things/7', asked))
  t.equal(status, 204)
  t.match(headers, {
    'access-control-allow-origin': page,
    'access-control-allow-methods': 'GET, HEAD, PUT, DELETE',
    'access-control-allow-headers': 'x-oauth-access-token, content-type',
    'access-control-max-age': '60',
  })
  t.match(headers.vary, /access-control-request-method/)
  t.match(headers.vary, /\borigin\b/)
  t.same([text, headers['content-length'], headers['access-control-allow-credentials']], ['', undefined, undefined])
  t.same(upstream.received(), [])
})

t.test('a preflight is answered before a route’s own OPTIONS, which other requests reach', async (t) => {
  const { send, upstream } = await start(t, { origins: [page] })
  t.equal((await send(preflight('/own/x'))).status, 204)
  t.equal(upstream.received().length, 0)
  t.equal((await send({ method: 'OPTIONS', path: '/own/x', headers: { origin: page } })).status, 200)
  t.equal((await send({ method: 'OPTIONS', path: '/open/x', headers: { origin: page } })).status, 405)
})

t.test('a preflight for a path that nothing is served at is 404', async (t) => {
  const { send } = await start(t, { origins: [page] })
  t.equal((await send(preflight('/nowhere'))).status, 404)
})

t.test('a preflight from another origin is an OPTIONS like any other', async (t) => {
  const { send } = await start(t, { origins: [page] })
  for (const origin of ['https://evil.example', 'https://app.example.evil.example', 'http://app.example', 'null', '']) {
    const { status, headers } = await send(preflight('/things/7', { origin }))
    t.equal(status, 405, origin)
    t.equal(headers['access-control-allow-origin'], undefined, origin)
  }
  const twice = await send(preflight('/things/7', { origin: [page, page] }))
  t.equal(twice.headers['access-control-allow-origin'], undefined)
})

t.test('every answer says who may read it, refusals included', async (t) => {
  const { send } = await start(t, { origins: [page] })
  const expected: readonly (readonly [path: string, status: number])[] = [
    ['/open/x', 200],
    ['/things/7', 401],
    ['/nowhere', 404],
    ['/a//b', 400],
  ]
  for (const [path, status] of expected) {
    const answer = await send({ path, headers: { origin: page } })
    t.equal(answer.status, status, path)
    t.equal(answer.headers['access-control-allow-origin'], page, path)
    t.match(answer.headers['access-control-expose-headers'], /x-request-id/, path)
  }
})

t.test('a backend’s CORS headers are dropped, and the response varies', async (t) => {
  const { send } = await start(t, { origins: [page] })
  for (const headers of [{}, { origin: 'https://evil.example' }]) {
    const answer = await send({ path: '/open/x', headers })
    t.equal(answer.headers['access-control-allow-origin'], undefined)
    t.equal(answer.headers['access-control-allow-credentials'], undefined)
    t.equal(answer.headers.vary, 'accept, origin')
  }
})

t.test('* allows every origin, and names none', async (t) => {
  const { send } = await start(t, { origins: ['*'] })
  const { headers } = await send({ path: '/open/x', headers: { origin: 'https://anybody.example' } })
  t.equal(headers['access-control-allow-origin'], '*')
  t.equal(headers.vary, 'accept')
})

t.test('cookies are for named origins alone', async (t) => {
  const { send } = await start(t, { origins: [page], credentials: true })
  const answer = await send(preflight('/things/7'))
  t.equal(answer.headers['access-control-allow-credentials'], 'true')
  t.equal(answer.headers['access-control-allow-origin'], page)
  await t.rejects(start(t, { origins: ['*'], credentials: true }), { message: /cors/ })
  await t.rejects(start(t, { origins: [page, '*'], credentials: true }), { message: /cors/ })
  await t.rejects(start(t, { origins: ['app.example'] }), { message: /cors\.origins/ })
})

t.test('with CORS off OPTIONS is 405 where no route takes it, and backends answer browsers themselves', async (t) => {
  const { send } = await start(t)
  const { status, headers } = await send(preflight('/things/7'))
  t.equal(status, 405)
  t.equal(headers['access-control-allow-origin'], undefined)
  const answer = await send({ path: '/open/x', headers: { origin: page } })
  t.equal(answer.headers['access-control-allow-origin'], '*')
  t.equal(answer.headers.vary, 'accept')
})

t.test('a refusal of a body that cannot be read, and the published keys, say who may read them', async (t) => {
  const identity = { keys: ['file:identity.pem'], publishOnPublicListener: true }
  const { gateway } = await start(t, { origins: [page] }, { identity })
  const client = await openRawClient(t, gateway.public)
  client.send(`GET /open/x HTTP/1.1\r\nHost: h\r\nOrigin: ${page}\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n`)
  t.match(await client.closed(), new RegExp(`^HTTP/1\\.1 400 [^]*\r\naccess-control-allow-origin: ${page}\r\n`))
  const keys = await call(gateway.public, { path: '/.well-known/jwks.json', headers: { origin: page } })
  t.match(keys, { status: 200, headers: { 'access-control-allow-origin': page, vary: 'origin' } })
})

t.test('a preflight that asks for more than the protocol’s three answers gets no grant for it', async (t) => {
  const { send } = await start(t, { origins: [page], credentials: true })
  const answer = await send(preflight('/things/7', { 'access-control-request-private-network': 'true' }))
  t.equal(answer.status, 204)
  t.notOk(Object.keys(answer.headers).some((name) => name.includes('private-network')))
})

t.test('a preflight with a credential, good or bad, is answered without a look at it', async (t) => {
  const { send, upstream } = await start(t, { origins: [page] })
  for (const headers of [
    { authorization: 'Bearer oat_x' },
    { 'x-oauth-access-token': 'x', cookie: 'current-org-id=x' },
  ])
    t.equal((await send(preflight('/things/7', headers))).status, 204)
  t.same(upstream.received(), [])
})

t.test('a preflight that names its method on two lines is an OPTIONS like any other', async (t) => {
  const { send } = await start(t, { origins: [page] })
  const twice = { 'access-control-request-method': ['PUT', 'DELETE'] }
  t.equal((await send(preflight('/things/7', twice))).status, 405)
  t.equal((await send({ method: 'OPTIONS', path: '/things/7', headers: { origin: page } })).status, 405)
})

t.test(
  'a refusal of the decision listener can be read by the pages that may, and a permit says nothing of them',
  async (t) => {
    const { gateway } = await start(t, { origins: [page], credentials: true })
    const ask = (uri: string, origin: string) =>
      call(gateway.decision, {
        path: '/authorize',
        headers: { origin, 'x-forwarded-method': 'GET', 'x-forwarded-uri': uri },
      })
    const refused = await ask('/things/7', page)
    t.equal(refused.status, 401)
    t.equal(refused.headers['access-control-allow-origin'], page)
    t.equal(refused.headers['access-control-allow-credentials'], 'true')
    t.match(refused.headers['access-control-expose-headers'], /x-request-id/)
    const foreign = await ask('/things/7', 'https://evil.example')
    t.equal(foreign.status, 401)
    t.notOk('access-control-allow-origin' in foreign.headers)
    const permitted = await ask('/open/x', page)
    t.equal(permitted.status, 200)
    t.notOk('access-control-allow-origin' in permitted.headers, 'Envoy could copy it to the request')
    const { gateway: plain } = await start(t)
    const silent = await call(plain.decision, {
      path: '/authorize',
      headers: { origin: page, 'x-forwarded-method': 'GET', 'x-forwarded-uri': '/things/7' },
    })
    t.notOk('access-control-allow-origin' in silent.headers, 'with cors off')
  },
)
