import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

// `issuers[].tokens.headers`: a proxy in front puts its token there on every request, such as Cloudflare Access and
// Google IAP.

const world = await startTestWorld(t)
const { member, owner } = world.users
const { robot } = world.serviceAccounts
const name = 'cf-access-jwt-assertion'
const other = 'x-goog-iap-jwt-assertion'
const origin = 'https://app.example'

let lastHead = ''
const upstream = await startRawUpstream(t, (socket, soFar) => {
  lastHead = soFar.split('\r\n\r\n').at(-2) ?? ''
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
})
const guarded = { match: { path: '/*' }, surface: 'platform', upstream: 'platform' }
const routes = [
  { ...guarded, id: 'any' },
  { ...guarded, id: 'open', match: { path: '/open/*' }, access: 'public' },
  { ...guarded, id: 'trusting', match: { path: '/trusting/*' }, upstream: 'trusting' },
  { ...guarded, id: 'trusting.open', match: { path: '/trusting/open/*' }, upstream: 'trusting', access: 'public' },
]

const issuersWith = (tokens: object) => [{ issuer: world.oidc.issuer, audience: world.oidc.audience, tokens }]

const start = (t: Test, tokens: object, more: object = {}) =>
  startTestGateway(t, {
    world,
    routes,
    upstreams: { platform: { url: upstream.url }, trusting: { url: upstream.url, credentials: 'forward' } },
    settings: { issuers: issuersWith(tokens) },
    ...more,
  })

const gateway = await start(t, { headers: [name, other], origins: [origin] })

type Headers = Readonly<Record<string, string | string[]>>

const ask = (headers: Headers, path = '/x', method = 'GET') => call(gateway.public, { path, method, headers })

/** The user of the identity that arrived. */
const arrivedAs = (): unknown => {
  const [, payload = ''] = /^x-gateway-identity: [^.]+\.([^.]+)/im.exec(lastHead) ?? []
  return JSON.parse(Buffer.from(payload, 'base64url').toString()).sub
}

t.test('a JWT counts in each header that its issuer names', async (t) => {
  for (const written of [name, other, 'Cf-Access-Jwt-Assertion']) {
    t.equal((await ask({ [written]: member.jwt })).status, 200, written)
    t.equal(arrivedAs(), String(member.id))
  }
  t.equal((await ask({ 'x-pomerium-jwt-assertion': member.jwt })).status, 401, 'and in no other')
})

t.test('it is verified like any other', async (t) => {
  for (const text of ['', 'x', `${member.jwt}A`, `Bearer ${member.jwt}`, robot.apiKey, `${member.jwt}, ${member.jwt}`])
    t.equal((await ask({ [name]: text })).status, 401, text.slice(0, 10))
})

t.test('a credential of x-oauth-access-token or Authorization is read before it', async (t) => {
  t.equal((await ask({ [name]: member.jwt, ...oauth(owner) })).status, 200)
  t.equal(arrivedAs(), String(owner.id))
  t.equal((await ask({ [name]: member.jwt, ...bearer(robot.apiKey) })).status, 200)
  t.equal(arrivedAs(), String(robot.id))
  t.equal((await ask({ [name]: 'x', [other]: 'y', ...oauth(owner) })).status, 200, 'whatever it holds')
  t.equal((await ask({ [name]: member.jwt, authorization: 'Basic YTpi' })).status, 200, 'another scheme is none')
  t.equal(arrivedAs(), String(member.id))
})

t.test('other methods than GET, HEAD and OPTIONS need an origin of tokens.origins, as a cookie does', async (t) => {
  const carried = { [name]: member.jwt }
  for (const method of ['GET', 'HEAD', 'OPTIONS']) t.equal((await ask(carried, '/x', method)).status, 200, method)
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
    const refused = await ask(carried, '/x', method)
    t.match([refused.status, refused.json().error.code], [403, 'origin_forbidden'], method)
    t.equal((await ask({ ...carried, origin }, '/x', method)).status, 200, method)
    t.equal((await ask({ ...carried, origin: new URL(gateway.public).origin }, '/x', method)).status, 200, 'its own')
    t.equal((await ask({ ...carried, 'sec-fetch-site': 'same-origin' }, '/x', method)).status, 200, 'its own, told so')
    t.equal(
      (await ask({ ...oauth(member), origin: 'https://evil.example' }, '/x', method)).status,
      200,
      'no page sends it',
    )
  }
})

t.test('no such header reaches an upstream, on public routes too', async (t) => {
  const lines = { [name]: member.jwt, [other]: 'x', 'x-other': 'kept' }
  for (const path of ['/open/x', '/trusting/open/x', '/x']) {
    t.equal((await ask({ ...lines, ...oauth(owner) }, path)).status, 200, path)
    t.notMatch(lastHead, /jwt-assertion/i, path)
    t.match(lastHead, /^x-other: kept$/im)
  }
})

t.test('an upstream with `credentials: forward` gets it', async (t) => {
  t.equal((await ask({ [name]: member.jwt }, '/trusting/x')).status, 200)
  t.ok(lastHead.includes(`${name}: ${member.jwt}`))
  for (const explicit of [oauth(owner), bearer(robot.apiKey)]) {
    t.equal((await ask({ [name]: 'forged', ...explicit }, '/trusting/x')).status, 200)
    t.notMatch(lastHead, /jwt-assertion/i, 'one that was not read is not verified')
  }
  t.equal((await ask({ [name]: member.jwt, authorization: 'Basic YTpi' }, '/trusting/x')).status, 200)
  t.match(lastHead, /^cf-access-jwt-assertion: eyJ/im)
  await ask({ [name]: member.jwt, connection: `close, ${name}` }, '/trusting/x')
  t.notMatch(lastHead, /jwt-assertion/i, 'but not if Connection names it')
})

t.test('without `headers` such a header is one of many, and passes', async (t) => {
  const plain = await start(t, {})
  const at = (headers: Headers) => call(plain.public, { path: '/x', headers })
  t.equal((await at({ [name]: member.jwt })).status, 401)
  t.equal((await at({ [name]: 'x', ...oauth(member) })).status, 200)
  t.match(lastHead, /^cf-access-jwt-assertion: x$/im)
})

t.test('the decision listener reads it for the method that it is asked about', async (t) => {
  const about = (method: string, path = '/x') => ({ 'x-original-method': method, 'x-original-uri': path })
  const at = (headers: Headers, path = '/authorize') => call(gateway.decision, { path, headers })
  const carried = { [name]: member.jwt }
  t.equal((await at({ ...about('GET'), ...carried })).status, 200)
  t.equal((await at({ ...about('POST'), ...carried })).status, 403, 'the question itself is a GET')
  t.equal((await at({ ...about('POST'), ...carried, origin })).status, 200)
  t.equal((await at({ ...about('GET'), ...carried, origin: 'https://evil.example' })).status, 403)
  const own = { ...about('POST'), ...carried, host: 'api.example' }
  t.equal((await at({ ...own, origin: 'http://api.example' })).status, 200, 'the host that the proxy tells')
  t.equal((await at({ ...own, origin: new URL(gateway.decision).origin })).status, 403)
})

t.test('a permit names it for removal, unless its upstream has `credentials: forward`', async (t) => {
  const removed = async (path: string, asked: Headers = { [name]: member.jwt }): Promise<readonly string[]> => {
    const { status, headers } = await call(gateway.decision, { path, headers: asked })
    t.equal(status, 200, path)
    return String(headers['x-envoy-auth-headers-to-remove'] ?? '').split(',')
  }
  for (const path of ['/envoy/x', '/envoy-named/x', '/envoy/open/x', '/envoy/trusting/open/x'])
    for (const one of [name, other, 'authorization']) t.ok((await removed(path)).includes(one), `${path} ${one}`)
  t.strictSame(
    (await removed('/envoy-named/trusting/x')).filter((one) => /assertion|auth/.test(one)),
    [other],
  )
  const unread = await removed('/envoy-named/trusting/x', { [name]: 'forged', ...oauth(owner) })
  t.ok(unread.includes(name), 'one that was not read')
})

t.test('a name with a role of its own is refused at load', async (t) => {
  const refused = [
    ...['x-oauth-access-token', 'authorization', 'proxy-authorization', 'cookie', 'host', 'x-organization-id'],
    ...['x-gateway-identity', 'x-gateway-any', 'x-forwarded-for', 'x-forwarded-access-token', 'forwarded'],
    ...['x-request-id', 'traceparent', 'connection', 'content-length', 'transfer-encoding', 'upgrade', 'te'],
    ...['x-real-ip', 'x-original-url', 'x-envoy-any', 'x-http-method-override', 'x-auth-request-user'],
    ...['origin', 'sec-fetch-site', 'sec-websocket-protocol', 'accept', 'accept-encoding', 'content-type', 'referer'],
    ...['access-control-request-method', 'if-match', 'range', 'last-event-id', 'user-agent', 'dpop', 'mcp-session-id'],
  ]
  for (const header of refused)
    await t.rejects(
      start(t, { headers: [name, header] }),
      { name: 'ConfigurationError', message: /role of its own/ },
      header,
    )
  for (const headers of [[], ['X-Mine'], ['x_mine'], ['x.mine'], [''], ['x mine'], [name, name], name])
    await t.rejects(start(t, { headers }), { name: 'ConfigurationError' }, JSON.stringify(headers))
  await t.rejects(start(t, { origins: [origin] }), { name: 'ConfigurationError' }, 'origins of nothing')
})

t.test('a name by which a route finds its resource is refused at load', async (t) => {
  const resource = { kind: 'agent', header: name }
  const finding = [{ ...guarded, id: 'finding', match: { path: '/agents' }, resource, require: { role: 'org-member' } }]
  const wrong = { name: 'ConfigurationError', message: /"finding" takes its resource from the header/ }
  await t.rejects(start(t, { headers: [name] }, { routes: finding }), wrong)
  await t.resolves(start(t, { headers: [other] }, { routes: finding }))
})
