import { createLocalJWKSet, decodeProtectedHeader, jwtVerify } from 'jose'
import t from 'tap'
import { generatePem } from '../../gateway/tools/cli/keys.ts'
import { type Call, call, callRaw, type JsonValue } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { bearer, oauth, type RecordedRequest, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const member = oauth(world.users.member)
const acme = String(world.organizations.acme.id)
const credential = `x-oauth-access-token: ${world.users.member.jwt}\r\n`
const host = 'Host: api.example.com\r\n'

async function forward(request: Partial<Call>): Promise<RecordedRequest> {
  await world.clearRecorder()
  const { status } = await world.call({ path: '/public/x', ...request, headers: { ...member, ...request.headers } })
  const [seen, ...more] = await world.recorded()
  if (seen === undefined || more.length > 0) throw new Error(`answered ${status}; ${more.length} more recorded`)
  return seen
}

async function forwardLines(lines: string, requestLine = 'GET /public/x'): Promise<RecordedRequest> {
  await world.clearRecorder()
  const text = await world.raw(`${requestLine} HTTP/1.1\r\n${host}${credential}${lines}Connection: close\r\n\r\n`)
  const [seen, ...more] = await world.recorded()
  if (seen === undefined || more.length > 0) throw new Error(`${more.length} more recorded; answered ${text}`)
  return seen
}

const linesOf = ({ headers }: RecordedRequest, name: string): readonly string[] =>
  headers.filter(([found]) => found.toLowerCase() === name).map(([, value]) => value)

/** Names as a lenient backend would read them. */
const namesOf = ({ headers }: RecordedRequest): readonly string[] =>
  headers.map(([name]) => name.toLowerCase().replace(/[^a-z0-9]/g, '-'))

/** Verifies the identity header as a backend would, by the keys of the admin listener. */
async function readIdentity(seen: RecordedRequest, audience: string): Promise<JsonValue> {
  const [jws, ...more] = linesOf(seen, 'x-gateway-identity')
  if (jws === undefined || more.length > 0) throw new Error('not one identity header')
  const keys = await (await fetch(`${world.admin}/.well-known/jwks.json`)).json()
  const options = { issuer: 'sallyport', audience, algorithms: ['EdDSA'], maxTokenAge: 60 }
  const { payload } = await jwtVerify(jws, createLocalJWKSet(keys as Parameters<typeof createLocalJWKSet>[0]), options)
  return payload
}

const memberAbilities = [
  'agents:execute',
  'agents:read',
  'clusters:read',
  'datasets:read',
  'entries:read',
  'files:read',
  'files:write',
  'metrics:read',
  'models:read',
  'workflows:execute',
  'workflows:read',
]

t.test('the identity header of a human says who, where and what', async (t) => {
  const { iat, exp, ...claims } = await readIdentity(await forward({}), 'platform')
  const { id } = world.users.member
  t.same(claims, {
    iss: 'sallyport',
    aud: 'platform',
    sub: String(id),
    user: { id, type: 'human', email: 'member@demo.example', emailVerified: true },
    organization: { id: world.organizations.acme.id, slug: 'acme', role: 'org-member' },
    roles: ['org-member'],
    abilities: memberAbilities,
    credential: { kind: 'oauth' },
  })
  t.equal(exp - iat, 60)
})

t.test(
  'the identity header of an API token names the token, and holds only what token and role both allow',
  async (t) => {
    const { robot } = world.serviceAccounts
    await world.clearRecorder()
    await world.call({ path: '/datasets', headers: bearer(robot.apiKey) })
    const [seen] = await world.recorded()
    const claims = await readIdentity(seen as RecordedRequest, 'platform')
    t.match(claims, {
      sub: String(robot.id),
      user: { id: robot.id, type: 'client-managed', email: 'robot@demo.example' },
      organization: { id: world.organizations.acme.id, slug: 'acme', role: 'org-member' },
      roles: ['org-member'],
    })
    t.same(
      claims.abilities,
      memberAbilities.filter((ability) => ability !== 'files:write'),
    )
    const tokenId = Buffer.from(robot.apiKey.slice('oat_'.length).split('.')[0] ?? '', 'base64url').toString()
    t.same(claims.credential, { kind: 'api-token', id: Number(tokenId) })
  },
)

t.test('the identity header under a bypass scope keeps the held role and lists every ability as *', async (t) => {
  const claims = await readIdentity(await forward({ headers: oauth(world.users.platformAdmin) }), 'platform')
  t.match(claims.organization, { slug: 'acme', role: 'org-client' })
  t.same(claims.roles, ['org-client', 'admin'])
  t.same(claims.abilities, ['*'])
})

t.test('without an organization the identity header says null, and nothing is pinned', async (t) => {
  const seen = await forward({ headers: oauth(world.users.homeless) })
  const claims = await readIdentity(seen, 'platform')
  t.equal(claims.organization, null)
  t.same(claims.roles, [])
  t.same(claims.abilities, [])
  t.same(linesOf(seen, 'x-organization-id'), [])
})

t.test('the organization in the identity header is the one in force', async (t) => {
  const globex = world.organizations.globex.id
  const seen = await forward({ headers: { ...oauth(world.users.owner), 'x-organization-id': String(globex) } })
  const claims = await readIdentity(seen, 'platform')
  t.match(claims.organization, { id: globex, slug: 'globex', role: 'org-member' })
  t.same(claims.roles, ['org-member'], 'roles in other organizations are left out')
})

for (const [audience, request] of [
  ['platform', { path: '/datasets' }],
  ['files', { path: '/v1/files' }],
  ['data', { path: '/data/rows' }],
  ['graphql', { method: 'POST', path: '/graphql', body: '{}' }],
  ['agents', { method: 'POST', path: '/agent/1/responses', body: '{}' }],
  ['cluster:1', { path: '/clusters/1/proxy/rows' }],
] as const) {
  t.test(`the audience is the upstream: ${audience}`, async (t) => {
    t.equal((await readIdentity(await forward(request), audience)).aud, audience)
  })
}

t.test('the key of the signature is published, and nothing private with it', async (t) => {
  const [jws = ''] = linesOf(await forward({}), 'x-gateway-identity')
  const { keys } = (await call(world.admin, { path: '/.well-known/jwks.json' })).json()
  t.match(decodeProtectedHeader(jws), { alg: 'EdDSA', kid: keys[0].kid })
  t.match(keys, [{ kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig' }])
  t.notOk(keys.some((key: object) => 'd' in key))
})

t.test('ES256 is there by configuration; of several keys all are published and the first signs', async (t) => {
  const keys = [generatePem('ES256'), generatePem('ES256')]
  const gateway = await startTestGateway(t, {
    world,
    upstreams: { platform: { url: await platformUrl() } },
    settings: { identity: { issuer: 'another', algorithm: 'ES256', keys, publishOnPublicListener: true } },
  })
  await world.clearRecorder()
  await call(gateway.public, { path: '/public/x', headers: member })
  const [seen] = await world.recorded()
  const [jws = ''] = linesOf(seen as RecordedRequest, 'x-gateway-identity')
  const published = (await call(gateway.admin, { path: '/.well-known/jwks.json' })).json()
  t.match(published.keys, [
    { kty: 'EC', crv: 'P-256', alg: 'ES256', kid: String },
    { kty: 'EC', kid: String },
  ])
  t.notOk(published.keys.some((key: object) => 'd' in key))
  t.match(decodeProtectedHeader(jws), { alg: 'ES256', kid: published.keys[0].kid })
  const options = { issuer: 'another', audience: 'platform', algorithms: ['ES256'] }
  await t.resolves(jwtVerify(jws, createLocalJWKSet(published), options))
  const onPublic = await call(gateway.public, { path: '/.well-known/jwks.json' })
  t.same(onPublic.json(), published, 'on the public listener too, when configured')
})

t.test('no identity header serves another upstream, user or organization as well', async (t) => {
  const sign = async (request: Partial<Call>) => linesOf(await forward(request), 'x-gateway-identity')[0]
  const globex = { ...oauth(world.users.owner), 'x-organization-id': String(world.organizations.globex.id) }
  const headers: (string | undefined)[] = []
  for (const request of [
    {},
    { path: '/v1/files' },
    { headers: oauth(world.users.admin) },
    { headers: oauth(world.users.owner) },
    { headers: globex },
  ])
    headers.push(await sign(request))
  t.equal(new Set(headers).size, headers.length)
})

t.test('a bound upstream learns method and target in the identity header, each time anew', async (t) => {
  const gateway = await startTestGateway(t, {
    world,
    upstreams: { platform: { url: await platformUrl(), bind: true } },
  })
  const bind = async (path: string, method = 'GET'): Promise<string> => {
    await world.clearRecorder()
    await call(gateway.public, { path, method, headers: member })
    const [seen] = await world.recorded()
    const [jws = ''] = linesOf(seen as RecordedRequest, 'x-gateway-identity')
    return jws
  }
  const claimsOf = (jws: string): JsonValue => JSON.parse(Buffer.from(jws.split('.')[1] ?? '', 'base64url').toString())
  t.match(claimsOf(await bind('/public/a?b=c')), { htm: 'GET', htu: '/public/a?b=c' })
  t.match(claimsOf(await bind('/public/other')), { htm: 'GET', htu: '/public/other' })
  t.match(claimsOf(await bind('/public/other', 'HEAD')), { htm: 'HEAD' }, 'as it was sent, not as it was matched')
  t.match(claimsOf(await bind('/public/other', 'DELETE')), { htm: 'DELETE' })
  const odd = '/public/%61;b=%C3%A9?q=%20+&q'
  t.match(claimsOf(await bind(odd)), { htu: odd }, 'byte for byte')
  const judged = await call(gateway.decision, {
    path: '/authorize',
    headers: { ...member, 'x-forwarded-method': 'PUT', 'x-forwarded-uri': '/public/a?b', 'x-forwarded-host': 'h' },
  })
  const pinned = String(judged.headers['x-gateway-identity'])
  t.match(claimsOf(pinned), { htm: 'PUT', htu: '/public/a?b' }, 'the request that a proxy asks for')
})

async function platformUrl(): Promise<string> {
  const [authority] = linesOf(await forward({}), 'host')
  return `http://${authority}`
}

t.test('a public route adds no identity and forwards neither credential nor organization', async (t) => {
  for (const headers of [member, bearer('oat_nonsense'), {}]) {
    await world.clearRecorder()
    const answer = await world.call({ path: '/status', headers: { ...headers, 'x-organization-id': 'odd' } })
    t.equal(answer.status, 200)
    const [seen] = await world.recorded()
    t.notMatch(
      namesOf(seen as RecordedRequest).join(),
      /x-gateway-|x-organization-id|authorization|x-oauth-access-token/,
    )
  }
})

t.test('x-organization-id is rewritten to the pinned organization', async (t) => {
  t.same(linesOf(await forward({}), 'x-organization-id'), [acme], 'added where the client sent none')
  t.same(linesOf(await forward({ headers: { 'x-organization-id': acme } }), 'x-organization-id'), [acme])
  const seen = await forward({ headers: { cookie: `current-org-id=${acme}` } })
  t.same(linesOf(seen, 'x-organization-id'), [acme])
})

const forgeries = [
  'x-gateway-identity',
  'X-Gateway-Identity',
  'X-GATEWAY-IDENTITY',
  'x_gateway_identity',
  'x-gateway_identity',
  'X.Gateway.Identity',
  'x_gateway-identity',
  'x-gateway-anything',
  'X_GATEWAY_USER',
  'x.gateway-roles',
]
t.test('a forged identity header is dropped in every spelling', async (t) => {
  for (const name of forgeries) {
    const seen = await forwardLines(`${name}: forged\r\n${name}: forged\r\n`)
    t.equal(namesOf(seen).filter((found) => found.startsWith('x-gateway-')).length, 1, name)
    t.notMatch(JSON.stringify(seen.headers), /forged/, name)
  }
})

t.test('headers that Connection names are dropped, but never those that the gateway adds', async (t) => {
  const ours = 'x-gateway-identity, X-Organization-Id, x-request-id, x-forwarded-for, host, content-length'
  const seen = await forwardLines(`Connection: ${ours}\r\nx-organization-id: ${acme}\r\nx-request-id: mine\r\n`)
  for (const [name, value] of [
    ['x-organization-id', acme],
    ['x-request-id', 'mine'],
    ['x-forwarded-for', '127.0.0.1'],
  ] as const)
    t.same(linesOf(seen, name), [value])
  t.equal((await readIdentity(seen, 'platform')).sub, String(world.users.member.id))
  t.equal(linesOf(seen, 'host').length, 1)
})

t.test('Connection may list names oddly, and over several lines', async (t) => {
  const named = 'Connection: ,, X-One ,\tx-two,\r\nConnection:\r\nConnection: keep-alive, X-THREE\r\n'
  const seen = await forwardLines(`${named}x-one: 1\r\nX-Two: 2\r\nx-three: 3\r\nx-four: 4\r\n`)
  t.same(
    ['x-one', 'x-two', 'x-three', 'x-four'].map((name) => linesOf(seen, name).length),
    [0, 0, 0, 1],
  )
})

t.test('Connection cannot take away what decides: it is read first', async (t) => {
  await world.clearRecorder()
  const lines = `Connection: x-organization-id, x-oauth-access-token, close\r\nx-organization-id: 999\r\n`
  t.match(await world.raw(`GET /public/x HTTP/1.1\r\n${host}${credential}${lines}\r\n`), /^HTTP\/1\.1 401 /)
  t.same(await world.recorded(), [])
})

t.test('credentials do not reach a backend', async (t) => {
  t.notMatch(namesOf(await forward({})).join(), /authorization|x-oauth-access-token/)
  const token = bearer(world.serviceAccounts.robot.apiKey)
  await world.clearRecorder()
  await world.call({ path: '/datasets', headers: token })
  const [seen] = await world.recorded()
  t.notMatch(namesOf(seen as RecordedRequest).join(), /authorization|x-oauth-access-token/)
  t.notMatch(JSON.stringify(seen?.headers), token.authorization)
})

t.test('an ingress’ Basic beside a JWT is removed', async (t) => {
  const seen = await forward({ headers: { authorization: 'Basic aW5ncmVzczpzZWNyZXQ=' } })
  t.notMatch(JSON.stringify(seen.headers), /basic/i)
})

t.test('an upstream that says so gets the credential, unless Connection names it', async (t) => {
  const gateway = await startTestGateway(t, {
    world,
    upstreams: { platform: { url: await platformUrl(), credentials: 'forward' } },
  })
  for (const [connection, expected] of [
    ['close', [world.users.member.jwt]],
    ['close, x-oauth-access-token', []],
  ] as const) {
    await world.clearRecorder()
    await callRaw(gateway.public, `GET /public/x HTTP/1.1\r\n${host}${credential}Connection: ${connection}\r\n\r\n`)
    const [seen] = await world.recorded()
    t.same(linesOf(seen as RecordedRequest, 'x-oauth-access-token'), expected, connection)
  }
})

t.test('x-request-id is kept if sane, on the way out and in a refusal', async (t) => {
  for (const id of ['a', 'A-Za-z_0.9', 'x'.repeat(128)]) {
    t.same(linesOf(await forward({ headers: { 'x-request-id': id } }), 'x-request-id'), [id])
    t.equal((await world.call({ path: '/public/x', headers: { 'x-request-id': id } })).headers['x-request-id'], id)
  }
})

t.test('x-request-id is created if it is missing or malformed', async (t) => {
  for (const lines of [
    '',
    'x-request-id:\r\n',
    'x-request-id: with space\r\n',
    `x-request-id: ${'x'.repeat(129)}\r\n`,
    'x-request-id: caf\xe9\r\n',
    'x-request-id: one\r\nx-request-id: two\r\n',
    'x_request_id: alias\r\n',
  ]) {
    const seen = await forwardLines(lines)
    t.match(linesOf(seen, 'x-request-id'), [/^[0-9a-f-]{36}$/], JSON.stringify(lines))
    t.equal(namesOf(seen).filter((name) => name === 'x-request-id').length, 1)
  }
})

const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

t.test('a traceparent is propagated', async (t) => {
  const seen = await forward({ headers: { traceparent: trace, tracestate: 'vendor=1' } })
  t.same(linesOf(seen, 'traceparent'), [trace])
  t.same(linesOf(seen, 'tracestate'), ['vendor=1'])
})

t.test('a malformed or repeated traceparent is dropped', async (t) => {
  for (const lines of [
    'traceparent: nonsense\r\n',
    `traceparent: ff${trace.slice(2)}\r\n`,
    `traceparent: 00-${'0'.repeat(32)}-00f067aa0ba902b7-01\r\n`,
    `traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-${'0'.repeat(16)}-01\r\n`,
    `traceparent: ${trace}\r\ntraceparent: ${trace}\r\n`,
    `trace_parent: ${trace}\r\n`,
  ])
    t.same(linesOf(await forwardLines(lines), 'traceparent'), [], lines)
})

t.test('X-Forwarded-* and Forwarded of an untrusted peer are replaced', async (t) => {
  const seen = await forward({
    headers: {
      'x-forwarded-for': '6.6.6.6, 7.7.7.7',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'evil.example',
      'x-forwarded-port': '4444',
      'x-forwarded-prefix': '/evil',
      'x-forwarded-uri': '/admin/x',
      'x-forwarded-method': 'DELETE',
      forwarded: 'for=6.6.6.6;host=evil.example',
      host: 'api.example.com',
    },
  })
  t.same(
    seen.headers.filter(([name]) => /forwarded/i.test(name)),
    [
      ['x-forwarded-for', '127.0.0.1'],
      ['x-forwarded-proto', 'http'],
      ['x-forwarded-host', 'api.example.com'],
    ],
  )
})

t.test('a trusted proxy is believed, and its chain goes on', async (t) => {
  const gateway = await startTestGateway(t, {
    world,
    upstreams: { platform: { url: await platformUrl() } },
    settings: { trustedProxies: ['127.0.0.0/8'] },
  })
  await world.clearRecorder()
  const lines =
    'X-Forwarded-For: 6.6.6.6, 203.0.113.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: shop.example\r\n'
  await callRaw(gateway.public, `GET /public/x HTTP/1.1\r\n${host}${credential}${lines}Connection: close\r\n\r\n`)
  const [seen] = await world.recorded()
  t.same(
    seen?.headers.filter(([name]) => /forwarded/i.test(name)),
    [
      ['x-forwarded-for', '203.0.113.9, 127.0.0.1'],
      ['x-forwarded-proto', 'https'],
      ['x-forwarded-host', 'shop.example'],
    ],
  )
})

const aliases = [
  'x_organization_id',
  'X-Organization_Id',
  'x.organization.id',
  'x_oauth_access_token',
  'x.oauth.access.token',
  'x_forwarded_for',
  'X_Forwarded_Host',
  'x.forwarded.proto',
  'x_request_id',
  'x-request.id',
]
t.test('an alias of a header that decides is never forwarded and never believed', async (t) => {
  for (const name of aliases) {
    const value = /oauth/i.test(name) ? world.users.owner.jwt : String(world.organizations.globex.id)
    const seen = await forwardLines(`${name}: ${value}\r\n`)
    t.notOk(
      seen.headers.some(([found]) => found.toLowerCase() === name.toLowerCase()),
      name,
    )
    t.same(linesOf(seen, 'x-organization-id'), [acme], name)
    t.equal((await readIdentity(seen, 'platform')).sub, String(world.users.member.id), name)
  }
})

t.test('an alias is not a credential', async (t) => {
  await world.clearRecorder()
  for (const name of ['x_oauth_access_token', 'x.oauth.access.token'])
    t.equal((await world.call({ path: '/public/x', headers: { [name]: world.users.owner.jwt } })).status, 401)
  t.same(await world.recorded(), [])
})

t.test('the identity header is not a credential', async (t) => {
  const [identity = ''] = linesOf(await forward({}), 'x-gateway-identity')
  await world.clearRecorder()
  for (const headers of [
    { 'x-gateway-identity': identity },
    { 'x-oauth-access-token': identity },
    { authorization: `Bearer ${identity}` },
  ])
    t.equal((await world.call({ path: '/public/x', headers })).status, 401)
  t.same(await world.recorded(), [])
})

const targets = [
  '/public/plain',
  '/public/x?',
  '/public/x??',
  '/public/x?a=1&a=2;b=%zz&c=%',
  '/public/x?a=/ho/%2E%2E/hi&b=../..//\\^`{|}"<>',
  '/public/x?next=http://elsewhere.example/',
  '/public/a%20b',
  '/public/a;b',
  '/public/a;b=c;d',
  '/public/a;b/c',
  '/public/100%25',
  '/public/%25zz',
  '/public/%2541',
  '/public/%E2%82%AC',
  '/public/%e2%82%ac',
  '/public/a...b',
  '/public/...',
  '/public/[...slug]',
  "/public/-._~!$&'()*+,=:@",
  '/public/"<>^`{|}',
  '/public/%3F%23',
  '/public/%41',
  '/public/trailing/',
  '/public/.hidden',
]
t.test('method, path and query go out byte for byte', async (t) => {
  for (const target of targets) {
    const { requestLine } = await forwardLines('', `GET ${target}`)
    t.equal(requestLine, `GET ${target} HTTP/1.1`)
  }
})

t.test('every method goes out as it came', async (t) => {
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
    t.equal((await forward({ method })).requestLine, `${method} /public/x HTTP/1.1`)
})

t.test('a header that says another method or target goes nowhere', async (t) => {
  const seen = await forward({
    headers: {
      'x-http-method-override': 'DELETE',
      'x-http-method': 'DELETE',
      'x-method-override': 'DELETE',
      'x-original-url': '/admin/x',
      'x-rewrite-url': '/admin/x',
    },
  })
  t.notMatch(namesOf(seen).join(), /override|x-http-method|x-original|x-rewrite/)
})

t.test('a backend that asks for such a header by name gets it, in its plain spelling alone', async (t) => {
  const { url, received } = await startRawUpstream(t, (socket) => socket.write('HTTP/1.1 204 No Content\r\n\r\n'))
  const upstreams = { platform: { url, passHeaders: ['cf-connecting-ip'] } }
  const gateway = await startTestGateway(t, { upstreams, routes: [openRoute] })
  const lines = 'CF-Connecting-IP: 192.0.2.1\r\ncf_connecting_ip: 192.0.2.2\r\nx-real-ip: 192.0.2.3\r\n'
  await callRaw(gateway.public, `GET /x HTTP/1.1\r\nHost: h\r\n${lines}Connection: close\r\n\r\n`)
  t.match(received()[0], /\r\nCF-Connecting-IP: 192\.0\.2\.1\r\n/)
  t.notMatch(received()[0], /192\.0\.2\.[23]/)
})

t.test('a name in passHeaders that passes anyhow, or never, is a mistake of the configuration', async (t) => {
  for (const [name, why] of [
    ['accept', /accept passes anyway/],
    ['x-gateway-identity', /x-gateway-identity never passes/],
    ['authorization', /authorization never passes/],
    ['content-length', /content-length never passes/],
  ] as const) {
    const upstreams = { platform: { url: 'http://127.0.0.1:1', passHeaders: [name] } }
    await t.rejects(startTestGateway(t, { upstreams, routes: [openRoute] }), why, name)
  }
})

t.test('repeated headers keep their lines, order, case and bytes', async (t) => {
  const lines = 'Accept: a\r\nX-Multi: 1\r\naccept: b\r\nx-multi: 2\r\nX-Bytes: caf\xe9\r\nX-Empty:\r\n'
  const seen = await forwardLines(lines)
  t.same(
    seen.headers.filter(([name]) => /^(?:accept|x-multi|x-bytes|x-empty)$/i.test(name)),
    [
      ['Accept', 'a'],
      ['X-Multi', '1'],
      ['accept', 'b'],
      ['x-multi', '2'],
      ['X-Bytes', 'caf\xe9'],
      ['X-Empty', ''],
    ],
  )
})

t.test('cookies in two lines arrive as one', async (t) => {
  t.same(linesOf(await forwardLines('Cookie: a=1; b=2\r\nCookie: c=3\r\n'), 'cookie'), ['a=1; b=2; c=3'])
})

t.test('nothing is invented about the client', async (t) => {
  const seen = await forwardLines('')
  t.same(
    namesOf(seen).filter(
      (name) => !/^(?:host|connection|x-forwarded-|x-request-id|x-gateway-|x-organization-id)/.test(name),
    ),
    [],
  )
})

t.test('a User-Agent passes', async (t) => {
  t.same(linesOf(await forward({ headers: { 'user-agent': 'curl/8' } }), 'user-agent'), ['curl/8'])
})

t.test('hop-by-hop headers of a request are not relayed', async (t) => {
  const lines =
    'Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nTE: trailers\r\n' +
    'Trailer: x\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n'
  const seen = await forwardLines(lines)
  t.notMatch(namesOf(seen).join(), /keep-alive|proxy-|\bte\b|trailer|upgrade|http2-settings/)
  t.same(linesOf(seen, 'connection'), ['keep-alive'], 'our own connection’s')
})

t.test('the upstream’s own Host is sent, or the client’s where the configuration says so', async (t) => {
  const url = await platformUrl()
  t.same(linesOf(await forward({ headers: { host: 'api.example.com' } }), 'host'), [url.slice('http://'.length)])
  const gateway = await startTestGateway(t, { world, upstreams: { platform: { url, preserveHost: true } } })
  await world.clearRecorder()
  await call(gateway.public, { path: '/public/x', headers: { ...member, host: 'api.example.com' } })
  const [seen] = await world.recorded()
  t.same(linesOf(seen as RecordedRequest, 'host'), ['api.example.com'])
})

const answered = (headers: object, status = 200) =>
  world.call({
    path: '/public/x',
    headers: { ...member, 'x-demo-answer': JSON.stringify({ status, headers, body: 'ok' }) },
  })

const valuesOf = (rawHeaders: readonly string[], name: string): readonly string[] =>
  rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === name)

t.test('repeated Set-Cookie lines come back as they are', async (t) => {
  const { rawHeaders } = await answered({ 'Set-Cookie': ['a=1; Path=/', 'b=2; HttpOnly'] })
  t.same(valuesOf(rawHeaders, 'set-cookie'), ['a=1; Path=/', 'b=2; HttpOnly'])
})

t.test('hop-by-hop headers of an answer are not relayed, nor what its Connection names', async (t) => {
  const { rawHeaders } = await answered({
    Connection: 'X-Hop, close',
    'X-Hop': 'gone',
    'Keep-Alive': 'timeout=99',
    'Proxy-Authenticate': 'Basic',
    Upgrade: 'h2c',
    'X-Stays': 'here',
  })
  t.same(valuesOf(rawHeaders, 'x-stays'), ['here'])
  for (const name of ['x-hop', 'proxy-authenticate', 'upgrade']) t.same(valuesOf(rawHeaders, name), [], name)
  t.notMatch(valuesOf(rawHeaders, 'keep-alive').join(), '99')
})

t.test('an answer without a Date gets one, and one with a Date keeps it', async (t) => {
  const date = 'Tue, 01 Jan 2030 00:00:00 GMT'
  t.same(valuesOf((await answered({ Date: date })).rawHeaders, 'date'), [date])
  t.equal(valuesOf((await answered({})).rawHeaders, 'date').length, 1)
})
