import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { openRawClient, startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { startIssuer } from '../support/issuer.ts'
import { startServing } from '../support/serve.ts'
import { handshake, switching } from '../support/websocket.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

// A proxy that makes a header of its cookie, such as Cloudflare Access or Google IAP, sends it with the requests of every
// site. A gateway that takes it for a page's own credential lets any page act as the user.

const world = await startTestWorld(t)
const { member, owner } = world.users
const { robot } = world.serviceAccounts
const { audience } = world.oidc
const name = 'cf-access-jwt-assertion'
const second = 'x-goog-iap-jwt-assertion'
const cookie = '__Host-access-token'
const origin = 'https://app.example'

const heads: string[] = []
const lastHead = (): string => heads.at(-1) ?? ''
const upstream = await startRawUpstream(t, (socket, soFar) => {
  const head = soFar.split('\r\n\r\n').at(-2) ?? ''
  heads.push(head)
  socket.write(/^upgrade: websocket/im.test(head) ? switching : 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
})
const guarded = { match: { path: '/*' }, surface: 'platform', upstream: 'platform' }
const routes = [
  { ...guarded, id: 'any' },
  { ...guarded, id: 'socket', match: { path: '/socket' }, websocket: true },
  { ...guarded, id: 'open', match: { path: '/open/*' }, access: 'public' },
  { ...guarded, id: 'trusting', match: { path: '/trusting/*' }, upstream: 'trusting' },
]

const ofWorld = (tokens: object) => ({ issuer: world.oidc.issuer, audience, tokens })
const usual = ofWorld({ headers: [name, second], origins: [origin], cookie, subprotocol: true })
const upstreams = { platform: { url: upstream.url }, trusting: { url: upstream.url, credentials: 'forward' } }

const start = (t: Test, issuers: readonly object[], settings: object = {}) =>
  startTestGateway(t, { world, routes, upstreams, settings: { issuers, ...settings } })

const gateway = await start(t, [usual])

type Headers = Readonly<Record<string, string | string[]>>

const carried: Headers = { [name]: member.jwt }
const ask = (headers: Headers, path = '/x', method = 'GET', at = gateway.public) => call(at, { path, method, headers })
const statusOf = async (...asked: Parameters<typeof ask>): Promise<number> => (await ask(...asked)).status

/** The status of a handshake with these lines. */
async function join(t: Test, lines: readonly string[], at = gateway.public): Promise<number> {
  const client = await openRawClient(t, at)
  const head = handshake('/socket', [`${name}: ${member.jwt}`, ...lines].map((line) => `${line}\r\n`).join(''))
  client.send(head.replace(/^Host: .*$/im, `Host: ${new URL(at).host}`))
  const [, status] = /^HTTP\/1\.1 (\d+)/.exec(await client.until(/\r\n\r\n/)) ?? []
  client.socket.destroy()
  return Number(status)
}

t.test('a bad credential of the caller never falls back to it', async (t) => {
  const bad: readonly Headers[] = [
    ...['', 'x', ' ', robot.apiKey, `${owner.jwt.slice(0, -4)}AAAA`].map((jwt) => oauth({ jwt })),
    ...['', 'x', 'oat_x', member.jwt, robot.revoked].map(bearer),
    ...['', 'Bearer', 'bearer\tx', 'BEARER,x', 'Basic', member.jwt, robot.apiKey, ', Basic x', '"Basic" x'].map(
      (authorization) => ({ authorization }),
    ),
    { 'x-oauth-access-token': [member.jwt, member.jwt] },
    { authorization: ['Basic YTpi', 'Basic YTpi'] },
  ]
  for (const headers of bad) {
    const refused = await ask({ ...carried, ...headers })
    t.equal(refused.status, 401, JSON.stringify(headers).slice(0, 60))
    t.equal(refused.headers['www-authenticate'], 'Bearer error="invalid_token"')
  }
  t.equal(await statusOf(carried), 200, 'alone it counts')
})

t.test('a page of another origin cannot act by it', async (t) => {
  const own = new URL(gateway.public).origin
  const lies = [
    'null',
    'https://evil.example',
    `${origin}.evil.example`,
    `${origin}/`,
    'http://app.example',
    '',
    '*',
    `${own}0`,
  ]
  for (const lie of lies) {
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND'])
      t.equal(
        await statusOf({ ...carried, origin: lie }, '/x', method),
        method === 'PROPFIND' ? 405 : 403,
        `${method} ${lie}`,
      )
    t.equal(await join(t, [`Origin: ${lie}`]), 403, `a WebSocket of ${lie}`)
  }
  t.equal(await statusOf({ ...carried, origin: [origin, origin] }, '/x', 'POST'), 403, 'two origins')
  for (const site of ['same-site', 'cross-site', 'none'])
    t.equal(await statusOf({ ...carried, 'sec-fetch-site': site }, '/x', 'POST'), 403, site)
  t.equal(await statusOf({ ...carried, origin: lies[1] ?? '', 'sec-fetch-site': 'same-origin' }, '/x', 'POST'), 403)
  t.equal(await join(t, []), 403, 'a WebSocket without an origin')
  t.equal(await join(t, ['Sec-Fetch-Site: same-origin']), 403)
  t.equal(await join(t, [`Origin: ${origin}`]), 101)
})

// The gateway tells the browser that such a page may read a response which came by the proxy's cookie.
t.test('a page that CORS lets read responses reads none of the user, even by a GET', async (t) => {
  const cors = { origins: ['https://partner.example', origin], credentials: true }
  const reading = await start(t, [usual], { cors })
  for (const method of ['GET', 'HEAD', 'POST'])
    t.equal(
      await statusOf({ ...carried, origin: 'https://partner.example' }, '/x', method, reading.public),
      403,
      method,
    )
  t.equal(await statusOf({ ...carried, origin }, '/x', 'GET', reading.public), 200, 'one of tokens.origins')
  t.equal(await statusOf(carried, '/x', 'GET', reading.public), 200, 'the address bar')
  const mute = await start(t, [usual], { cors: { origins: ['https://partner.example'] } })
  t.equal(await statusOf({ ...carried, origin: 'https://partner.example' }, '/x', 'POST', mute.public), 403)
})

t.test('an alias is neither read nor forwarded', async (t) => {
  for (const alias of [
    'cf_access_jwt_assertion',
    'Cf.Access.Jwt.Assertion',
    "cf-access'jwt-assertion",
    'CF-ACCESS_JWT-ASSERTION',
  ]) {
    t.equal(await statusOf({ [alias]: member.jwt }), 401, alias)
    for (const path of ['/x', '/open/x', '/trusting/x']) {
      t.equal(await statusOf({ [alias]: member.jwt, 'x-kept': '1', ...oauth(owner) }, path), 200)
      t.match(lastHead(), /^x-kept: 1$/im)
      t.notMatch(lastHead(), /access.jwt/i, `${alias} ${path}`)
    }
  }
})

t.test('a repeated one, or two that differ, are refused', async (t) => {
  const twice = { [name]: [member.jwt, member.jwt] }
  t.equal(await statusOf(twice), 401)
  t.equal(await statusOf({ ...twice, ...oauth(owner) }), 401, 'beside a good credential too')
  t.equal(await statusOf({ ...twice, ...oauth(owner) }, '/open/x'), 200, 'a public route reads none')
  t.notMatch(lastHead(), /access-jwt/i)
  const both = await ask({ ...carried, [second]: owner.jwt })
  t.match([both.status, both.json().error.code], [400, 'ambiguous_credentials'])
})

t.test('beside a cookie that counts it is refused, and a subprotocol wins over it', async (t) => {
  const events = { accept: 'text/event-stream', cookie: `${cookie}=${owner.jwt}`, origin }
  t.equal(await statusOf(events), 200, 'the cookie alone')
  t.equal(await statusOf({ ...carried, ...events }), 400)
  t.equal(await statusOf({ ...carried, cookie: `${cookie}=${owner.jwt}` }), 200, 'no other request reads the cookie')
  t.equal(await join(t, [`Origin: ${origin}`, `Cookie: ${cookie}=${owner.jwt}`]), 400)
  t.equal(await join(t, [`Sec-WebSocket-Protocol: chat, bearer.jwt.${owner.jwt}`]), 101)
  t.equal(await join(t, [`Origin: ${origin}`, 'Sec-WebSocket-Protocol: chat, bearer.jwt.x']), 401, 'a bad one too')
})

t.test('a token counts in the headers, and from the origins, that its own issuer names', async (t) => {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  const jwk: JWK = { ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256' }
  const other = await startIssuer(t, () => [jwk])
  const jwt = await new SignJWT({ iss: other.issuer, aud: audience, sub: 'of-iap', exp: Date.now() / 1000 + 600 })
    .setProtectedHeader({ alg: 'ES256', kid: 'k' })
    .sign(privateKey)
  const ofOther = (tokens: object) => ({ issuer: other.issuer, audience, jwksUri: `${other.issuer}/jwks`, tokens })
  const partner = 'https://partner.example'
  const apart = await start(t, [ofWorld({ headers: [name] }), ofOther({ headers: [second], origins: [partner] })])
  const at = (headers: Headers, method = 'GET') => statusOf(headers, '/x', method, apart.public)
  for (let round = 0; round < 2; round++) {
    t.equal(await at({ [second]: jwt }), 200)
    t.equal(await at({ [name]: jwt }), 401, 'although it is cached')
    t.equal(await at({ [second]: member.jwt }), 401)
    t.equal(await at({ [name]: member.jwt }), 200)
  }
  t.equal(await at({ [second]: jwt, origin: partner }, 'POST'), 200)
  t.equal(await at({ ...carried, origin: partner }, 'POST'), 403)
  const shared = await start(t, [ofWorld({ headers: [name] }), ofOther({ headers: [name], origins: [partner] })])
  t.equal(await statusOf({ [name]: jwt, origin: partner }, '/x', 'POST', shared.public), 200)
  t.equal(await statusOf({ ...carried, origin: partner }, '/x', 'POST', shared.public), 401, 'the issuer is asked')
  const closed = await start(t, [ofWorld({ headers: [name], header: false })])
  t.equal(await statusOf(oauth(member), '/x', 'GET', closed.public), 401)
  t.equal(await statusOf(carried, '/x', 'GET', closed.public), 200)
})

t.test('a question about a WebSocket needs an origin, since it shows no handshake', async (t) => {
  const about = (path: string) => ({ 'x-forwarded-method': 'GET', 'x-forwarded-uri': path })
  const at = (path: string, headers: Headers) =>
    statusOf({ ...about(path), ...carried, ...headers }, '/authorize', 'GET', gateway.decision)
  t.equal(await at('/x', {}), 200)
  t.equal(await at('/socket', {}), 403)
  for (const path of ['/x', '/socket']) t.equal(await at(path, { origin: 'https://evil.example' }), 403, path)
  t.equal(await at('/socket', { origin }), 200)
  t.equal(await at('/socket', { 'sec-fetch-site': 'same-origin' }), 200, 'any other GET of that route')
})

t.test('no log line and no line of the audit has the token', async (t) => {
  const settings = { issuers: [usual], log: { level: 'debug' }, audit: { sink: 'stdout' } }
  const serve = await startServing(t, { world, upstream: upstream.url, settings })
  for (const path of ['/users/me', '/nowhere'])
    for (const headers of [carried, { ...carried, [second]: member.jwt }, { cf_access_jwt_assertion: member.jwt }])
      for (const method of ['GET', 'POST']) await statusOf(headers, path, method, serve.public)
  const [, payload = '', signature = ''] = member.jwt.split('.')
  const told = serve.stdout() + serve.stderr()
  t.ok(told.includes('"/users/me"'), 'the requests are told')
  t.notOk(told.includes(signature) || told.includes(payload))
})
