import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { crc32 } from 'node:zlib'
import pg from 'pg'
import t, { type Test } from 'tap'
import { type Answer, type Call, call, type JsonValue } from '../support/client.ts'
import { startFairClock } from '../support/fair-clock.ts'
import { startTestGateway } from '../support/gateway.ts'
import { bearer, oauth, type RecordedRequest, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, serviceAccounts, organizations, agents, clusters } = world
const database = new pg.Client({ connectionString: world.databaseUrl })
await database.connect()
t.teardown(() => database.end())

const owner = oauth(users.owner)
const admin = oauth(users.admin)
const member = oauth(users.member)
const client = oauth(users.client)
const homeless = oauth(users.homeless)
const platformAdmin = oauth(users.platformAdmin)
const { robot, robotAdmin } = serviceAccounts

const inGlobex = { 'x-organization-id': String(organizations.globex.id) }

async function send({
  headers,
  ...request
}: Call): Promise<Answer & Readonly<{ arrived: readonly RecordedRequest[] }>> {
  const mark = randomUUID()
  const answer = await world.call({ ...request, headers: { ...headers, 'x-mark': mark } })
  const recorded = await world.recorded()
  return { ...answer, arrived: recorded.filter(({ headers }) => headers.some(([, value]) => value === mark)) }
}

/** Refused with this status before any backend; `check` is the failed check, if any. */
async function refuses(t: Test, status: number, check: string | undefined, request: Call): Promise<Answer> {
  const answer = await send(request)
  const name = `${request.method ?? 'GET'} ${request.path}`
  t.equal(answer.status, status, name)
  t.strictSame(answer.arrived, [], `${name} reached no backend`)
  const body = request.method === 'HEAD' ? {} : answer.json()
  t.equal(body.error?.check, check, `${name} says which check`)
  return answer
}

async function allows(t: Test, backend: string, request: Call): Promise<RecordedRequest | undefined> {
  const { status, arrived } = await send(request)
  const name = `${request.method ?? 'GET'} ${request.path}`
  t.ok(status >= 200 && status < 300, `${name} is ${status}`)
  t.strictSame(
    arrived.map((request) => request.backend),
    [backend],
    name,
  )
  return arrived[0]
}

const headerOf = (request: RecordedRequest | undefined, name: string): readonly string[] =>
  (request?.headers ?? []).filter(([line]) => line.toLowerCase() === name).map(([, value]) => value)

const claimsOf = (request: RecordedRequest | undefined): JsonValue => {
  const [jws = ''] = headerOf(request, 'x-gateway-identity')
  return JSON.parse(Buffer.from(jws.split('.')[1] ?? '', 'base64url').toString())
}

/** An API token of a service account, in the format of SPEC section 2.6. */
async function createToken(userId: number | undefined, abilities: readonly string[]): Promise<string> {
  const random = randomBytes(20).toString('hex')
  const secret = `${random}${crc32(random)}`
  const { rows } = await database.query<{ id: number }>(
    `insert into auth_access_tokens (tokenable_id, type, hash, abilities, created_at, updated_at)
     values ($1, 'auth_token', $2, $3, now(), now()) returning id`,
    [userId, createHash('sha256').update(secret).digest('hex'), JSON.stringify(abilities)],
  )
  const encode = (text: string): string => Buffer.from(text).toString('base64url')
  return `oat_${encode(String(rows[0]?.id))}.${encode(secret)}`
}

async function createServiceAccount(
  ...memberships: (readonly [organization: number | null, role: string])[]
): Promise<number | undefined> {
  const { rows } = await database.query<{ id: number }>(
    "insert into users (email, user_type) values ('account@example.com', 'client-managed') returning id",
  )
  for (const membership of memberships)
    await database.query('insert into role_assignments (user_id, organization_id, role) values ($1, $2, $3)', [
      rows[0]?.id,
      ...membership,
    ])
  return rows[0]?.id
}

const responses = (agent: number | string): Call => ({
  method: 'POST',
  path: `/agent/${agent}/responses`,
  body: '{"input":"hello"}',
})

t.test('a higher role satisfies any check that requires a lower one', async (t) => {
  for (const headers of [client, member, admin, owner])
    await allows(t, 'platform', { method: 'POST', path: '/workflows/1/run', headers })
  for (const headers of [member, admin, owner]) await allows(t, 'platform', { path: '/datasets', headers })
  for (const headers of [admin, owner]) await allows(t, 'platform', { method: 'POST', path: '/datasets', headers })
  await allows(t, 'platform', { path: '/admin/x', headers: owner })
})

t.test('a lower role is 403 and says that the role failed', async (t) => {
  await refuses(t, 403, 'role', { path: '/datasets', headers: client })
  await refuses(t, 403, 'role', { method: 'POST', path: '/datasets', headers: member })
  await refuses(t, 403, 'role', { path: '/admin/x', headers: admin })
})

t.test('a missing ability is 403 and says that the ability failed', async (t) => {
  await refuses(t, 403, 'ability', { method: 'POST', path: '/datasets', headers: bearer(robotAdmin.apiKey) })
  await refuses(t, 403, 'ability', { method: 'DELETE', path: '/v1/files/1', headers: bearer(robot.apiKey) })
})

t.test('the role is checked before the ability', async (t) => {
  await refuses(t, 403, 'role', { method: 'POST', path: '/datasets', headers: bearer(robot.apiKey) })
})

t.test('role and ability are checked before the resource', async (t) => {
  const unable = bearer(await createToken(robot.id, ['datasets:read']))
  for (const agent of [agents.globex, 999_999, 'x']) {
    const byRole = await send({ ...responses(agent), headers: homeless })
    t.equal(byRole.status, 403)
    t.equal(byRole.json().error.check, 'role')
    const byAbility = await send({ ...responses(agent), headers: unable })
    t.equal(byAbility.status, 403)
    t.equal(byAbility.json().error.check, 'ability')
    const byResource = await send({ ...responses(agent), headers: member })
    t.equal(byResource.status, 404)
    t.strictSame([...byRole.arrived, ...byAbility.arrived, ...byResource.arrived], [])
  }
})

t.test('a 403 does not say what would have been enough', async (t) => {
  const refusals = [
    await refuses(t, 403, 'role', { path: '/admin/x', headers: member }),
    await refuses(t, 403, 'role', { method: 'POST', path: '/datasets', headers: member }),
    await refuses(t, 403, 'ability', { method: 'POST', path: '/datasets', headers: bearer(robotAdmin.apiKey) }),
  ]
  for (const { text, rawHeaders } of refusals)
    t.notMatch(`${text}${rawHeaders.join()}`, /org-|datasets|entries|:write|:read|owner|admin/)
})

t.test('the rights of an API token are the intersection of its abilities and its account’s role', async (t) => {
  const write = { method: 'POST', path: '/datasets' }
  await allows(t, 'platform', { ...write, headers: bearer(robotAdmin.apiSecret) })
  await refuses(t, 403, 'ability', { ...write, headers: bearer(robotAdmin.apiKey) })
  await refuses(t, 403, 'role', { ...write, headers: bearer(robot.apiSecret) })
  const written = await allows(t, 'platform', { path: '/datasets', headers: bearer(robot.apiSecret) })
  const { abilities } = claimsOf(written)
  t.ok(abilities.includes('files:write'), 'both grant it')
  t.notOk(abilities.includes('datasets:write'), 'the scope alone grants it')
  const { abilities: ofKey } = claimsOf(
    await allows(t, 'platform', { path: '/datasets', headers: bearer(robot.apiKey) }),
  )
  t.notOk(ofKey.includes('files:write'), 'the role alone grants it')
})

t.test('a token without abilities passes where no ability is required, and nowhere else', async (t) => {
  const account = await createServiceAccount([organizations.acme.id, 'org-owner'])
  const headers = bearer(await createToken(account, []))
  await allows(t, 'platform', { path: '/public/x', headers })
  await allows(t, 'platform', { path: '/admin/x', headers })
  const guarded: readonly (readonly [path: string, ...methods: string[]])[] = [
    ['/datasets', 'GET', 'POST'],
    ['/datasets/1', 'GET', 'PUT', 'PATCH', 'DELETE'],
    ['/datasets/1/entries', 'GET', 'POST'],
    ['/workflows', 'GET', 'POST'],
    ['/workflows/1', 'GET'],
    ['/workflows/1/run', 'POST'],
    ['/clusters', 'GET'],
    [`/clusters/${clusters.healthy}/proxy/x`, 'GET', 'POST', 'DELETE', 'OPTIONS'],
    [`/agent/${agents.acme}/responses`, 'POST'],
    [`/agent/${agents.acme}/chat/completions`, 'POST'],
    ['/v1/files', 'GET', 'POST'],
    ['/v1/files/1', 'GET', 'DELETE'],
    ['/v1/files/1/content', 'GET'],
    ['/socket', 'GET'],
  ]
  for (const [path, ...methods] of guarded)
    for (const method of methods) await refuses(t, 403, 'ability', { method, path, headers })
  for (const request of [
    { path: '/data/x' },
    { method: 'POST', path: '/data/x' },
    { method: 'POST', path: '/graphql' },
  ]) {
    const answer = await send({ ...request, headers })
    t.equal(answer.status, 403, request.path)
    t.strictSame(answer.arrived, [])
  }
})

t.test('a token with * is bounded by the role of its account', async (t) => {
  const headers = bearer(await createToken(robot.id, ['*']))
  await allows(t, 'platform', { path: '/datasets', headers })
  await refuses(t, 403, 'role', { method: 'POST', path: '/datasets', headers })
})

t.test('a session is bounded by its role alone, and its abilities are those of the role', async (t) => {
  const { abilities } = claimsOf(await allows(t, 'platform', { path: '/public/x', headers: client }))
  t.strictSame(abilities, ['agents:execute', 'workflows:execute'])
})

t.test('a bypass scope stands in for the highest role in an organization of the caller', async (t) => {
  await allows(t, 'platform', { path: '/admin/x', headers: platformAdmin })
  await allows(t, 'platform', { method: 'POST', path: '/datasets', headers: platformAdmin })
  const { abilities, organization, roles } = claimsOf(
    await allows(t, 'platform', { path: '/public/x', headers: platformAdmin }),
  )
  t.strictSame(abilities, ['*'])
  t.equal(organization.role, 'org-client', 'the role that is held stays what it is')
  t.strictSame(roles, ['org-client', 'admin'])
})

t.test('a bypass scope replaces no membership', async (t) => {
  await refuses(t, 401, undefined, { path: '/datasets', headers: { ...platformAdmin, ...inGlobex } })
  await refuses(t, 404, undefined, { path: `/clusters/${clusters.globex}/proxy/entries`, headers: platformAdmin })
  const agent = await send({ ...responses(agents.globex), headers: platformAdmin })
  t.equal(agent.status, 404)
  t.strictSame(agent.arrived, [])
})

t.test("a bypass scope replaces no token's missing ability", async (t) => {
  const account = await createServiceAccount([organizations.acme.id, 'org-client'], [null, 'admin'])
  const headers = bearer(await createToken(account, ['datasets:read']))
  await allows(t, 'platform', { path: '/admin/x', headers })
  await allows(t, 'platform', { path: '/datasets', headers })
  await refuses(t, 403, 'ability', { method: 'POST', path: '/datasets', headers })
  const { abilities } = claimsOf(await allows(t, 'platform', { path: '/public/x', headers }))
  t.strictSame(abilities, ['datasets:read'])
})

t.test('an unknown path is 404, with and without a credential', async (t) => {
  await refuses(t, 404, undefined, { path: '/nothing' })
  await refuses(t, 404, undefined, { path: '/nothing', headers: owner })
  await refuses(t, 404, undefined, { method: 'POST', path: '/nothing', headers: oauth({ jwt: 'nonsense' }) })
})

t.test('another method of a known path is 405 with Allow, with and without a credential', async (t) => {
  for (const headers of [{}, owner, client]) {
    const answer = await refuses(t, 405, undefined, { method: 'PATCH', path: '/datasets', headers })
    t.equal(answer.headers.allow, 'GET, HEAD, POST')
  }
})

t.test('OPTIONS is a method like any other while CORS is off', async (t) => {
  const preflight = { origin: 'https://example.com', 'access-control-request-method': 'GET' }
  const answer = await refuses(t, 405, undefined, { method: 'OPTIONS', path: '/datasets', headers: preflight })
  t.notOk(Object.keys(answer.headers).some((name) => name.startsWith('access-control-')))
  await refuses(t, 401, undefined, { method: 'OPTIONS', path: '/public/x', headers: preflight })
  await allows(t, 'platform', { method: 'OPTIONS', path: '/public/x', headers: { ...preflight, ...client } })
})

t.test('HEAD follows GET', async (t) => {
  const arrived = await allows(t, 'platform', { method: 'HEAD', path: '/datasets', headers: member })
  t.match(arrived?.requestLine, /^HEAD /, 'and arrives as HEAD')
  await refuses(t, 403, undefined, { method: 'HEAD', path: '/datasets', headers: client })
  await refuses(t, 401, undefined, { method: 'HEAD', path: '/datasets' })
  await refuses(t, 405, undefined, { method: 'HEAD', path: '/graphql', headers: member })
})

t.test('headers that name another method or path change no decision', async (t) => {
  const headers = {
    ...member,
    'x-http-method-override': 'GET',
    'x-method-override': 'GET',
    'x-http-method': 'GET',
    'x-original-url': '/public/x',
    'x-rewrite-url': '/public/x',
    'x-forwarded-uri': '/public/x',
    'x-original-uri': '/public/x',
    'x-forwarded-method': 'GET',
    'x-original-method': 'GET',
  }
  await refuses(t, 403, 'role', { method: 'DELETE', path: '/datasets/1', headers })
  const arrived = await allows(t, 'platform', { path: '/datasets', headers })
  t.notOk(arrived?.headers.some(([name]) => /override|http-method|original|rewrite|-uri$|forwarded-method/i.test(name)))
})

t.test('an agent of the organization in force may be run', async (t) => {
  await allows(t, 'agent', { ...responses(agents.acme), headers: client })
  await allows(t, 'agent', { ...responses(agents.globex), headers: { ...owner, ...inGlobex } })
})

t.test("another organization's agent is 404, and an unknown or malformed id reads the same", async (t) => {
  const bodies: string[] = []
  for (const id of [agents.globex, 999_999, 2_147_483_648, 'x', '01']) {
    const answer = await send({ ...responses(id), headers: owner })
    t.equal(answer.status, 404, String(id))
    t.strictSame(answer.arrived, [])
    bodies.push(answer.text)
  }
  t.equal(new Set(bodies).size, 1)
})

t.test('a public agent may be run by any authenticated caller, without the role or an organization', async (t) => {
  const arrived = await allows(t, 'agent', { ...responses(agents.public), headers: homeless })
  t.equal(claimsOf(arrived).organization, null)
  t.strictSame(headerOf(arrived, 'x-organization-id'), [])
  await allows(t, 'agent', { ...responses(agents.public), headers: client })
  await allows(t, 'agent', { ...responses(agents.public), headers: bearer(robot.apiKey) })
})

t.test('a public agent still asks for a credential, and for the ability of a token', async (t) => {
  await refuses(t, 401, undefined, responses(agents.public))
  const unable = bearer(await createToken(robotAdmin.id, ['agents:read', 'workflows:execute']))
  await refuses(t, 403, 'ability', { ...responses(agents.public), headers: unable })
})

t.test('a public agent opens nothing else of its organization', async (t) => {
  const initech = { 'x-organization-id': String(organizations.initech.id) }
  await refuses(t, 401, undefined, { ...responses(agents.public), headers: { ...homeless, ...initech } })
  await refuses(t, 405, undefined, { path: `/agent/${agents.public}/responses`, headers: homeless })
})

t.test('a public route takes every caller and reads no credential', async (t) => {
  const credentials: readonly Call['headers'][] = [
    {},
    owner,
    oauth({ jwt: 'nonsense' }),
    bearer('oat_nonsense'),
    bearer(robot.revoked),
    { ...owner, ...bearer(robot.apiKey) },
    { authorization: ['Bearer a', 'Bearer b'] },
    { ...owner, 'x-organization-id': 'nonsense', cookie: 'current-org-id=nonsense' },
  ]
  for (const headers of credentials) {
    const arrived = await allows(t, 'platform', { path: '/status', ...(headers && { headers }) })
    const names = (arrived?.headers ?? []).map(([name]) => name.toLowerCase())
    for (const name of ['authorization', 'x-oauth-access-token', 'x-gateway-identity', 'x-organization-id'])
      t.notOk(names.includes(name), name)
  }
})

async function startBackend(t: Test): Promise<Readonly<{ url: string; last: () => IncomingMessage['headers'] }>> {
  let last: IncomingMessage['headers'] = {}
  const server = createServer((request, response) => {
    last = request.headers
    response.end('seen')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return { url: `http://127.0.0.1:${port}`, last: () => last }
}

t.test('a public route forwards no credential to an upstream that gets them elsewhere', async (t) => {
  const backend = await startBackend(t)
  const gateway = await startTestGateway(t, {
    world,
    upstreams: { platform: { url: backend.url, credentials: 'forward' } },
    routes: [
      { id: 'open', match: { path: '/open' }, surface: 'platform', upstream: 'platform', access: 'public' },
      { id: 'closed', match: { path: '/closed' }, surface: 'platform', upstream: 'platform' },
    ],
  })
  t.equal((await call(gateway.public, { path: '/closed', headers: member })).text, 'seen')
  t.equal(backend.last()['x-oauth-access-token'], users.member.jwt)
  t.equal((await call(gateway.public, { path: '/closed', headers: bearer(robot.apiKey) })).text, 'seen')
  t.equal(backend.last().authorization, `Bearer ${robot.apiKey}`)

  for (const headers of [member, bearer(robot.apiKey), { ...member, ...bearer('oat_nonsense') }]) {
    t.equal((await call(gateway.public, { path: '/open', headers })).text, 'seen')
    const { authorization, 'x-oauth-access-token': jwt, 'x-gateway-identity': identity } = backend.last()
    t.strictSame([authorization, jwt, identity], [undefined, undefined, undefined])
  }
})

t.test('the more specific of two routes decides, whichever is stricter', async (t) => {
  const backend = await startBackend(t)
  const to = { surface: 'platform', upstream: 'platform' }
  const gateway = await startTestGateway(t, {
    world,
    upstreams: { platform: { url: backend.url } },
    routes: [
      { id: 'wide', match: { path: '/a/*' }, ...to, access: 'public' },
      { id: 'narrow', match: { path: '/a/secret' }, ...to, require: { role: 'org-owner' } },
      { id: 'wide.strict', match: { path: '/b/*' }, ...to, require: { role: 'org-owner' } },
      { id: 'narrow.open', match: { path: '/b/open' }, ...to, access: 'public' },
    ],
  })
  const status = async (path: string): Promise<number> => (await call(gateway.public, { path, headers: member })).status
  t.equal(await status('/a/anything'), 200)
  t.equal(await status('/a/secret'), 403)
  t.equal(await status('/a/%73ecret'), 403, 'in any spelling')
  t.equal(await status('/a/secret/'), 400, 'a trailing slash is another path here, and perhaps not at the backend')
  t.equal(await status('/b/anything'), 403)
  t.equal(await status('/b/open'), 200)
  t.equal(await status('/b/open/'), 403)
  t.equal(await status('/b/%6fpen'), 400, 'a backend that does not decode would do what only an owner may')
})

const code = (answer: Answer): string => {
  const { error } = answer.json()
  return `${answer.status} ${error.code}`
}

t.test('the order of refusal is the order of the stages', async (t) => {
  // One request with every fault; each step removes the first one.
  const proxy = (cluster: number): string => `/clusters/${cluster}/proxy/x`
  const ambiguous = { ...client, ...bearer('oat_nonsense') }
  const malformed = { 'x-organization-id': 'x' }
  const steps: readonly (readonly [expected: string, request: Call])[] = [
    ['400 target_malformed', { method: 'TRACE', path: '/nothing/%2e%2e', headers: { ...ambiguous, ...malformed } }],
    ['404 route_not_found', { method: 'PUT', path: '/nothing', headers: { ...ambiguous, ...malformed } }],
    ['405 method_not_allowed', { method: 'PUT', path: '/clusters', headers: { ...ambiguous, ...malformed } }],
    ['400 ambiguous_credentials', { path: proxy(clusters.globex), headers: { ...ambiguous, ...malformed } }],
    ['401 unauthenticated', { path: proxy(clusters.globex), headers: { ...oauth({ jwt: 'x' }), ...malformed } }],
    ['400 invalid_organization_id', { path: proxy(clusters.globex), headers: { ...client, ...malformed } }],
    ['401 not_a_member', { path: proxy(clusters.globex), headers: { ...client, ...inGlobex } }],
    ['403 role_insufficient', { path: proxy(clusters.globex), headers: client }],
    ['403 ability_missing', { method: 'POST', path: proxy(clusters.globex), headers: bearer(robotAdmin.apiKey) }],
    ['404 resource_not_found', { path: proxy(clusters.globex), headers: member }],
    ['403 cluster_suspended', { path: proxy(clusters.suspended), headers: member }],
    ['503 cluster_offline', { path: proxy(clusters.stale), headers: member }],
    ['503 upstream_unavailable', { path: proxy(clusters.unreachable), headers: member }],
  ]
  for (const [expected, request] of steps) {
    const answer = await send(request)
    t.equal(code(answer), expected)
    t.strictSame(answer.arrived, [], expected)
  }
  await allows(t, 'cluster-healthy', { path: proxy(clusters.healthy), headers: member })
})

t.test('a body is never waited for before the permit: every refusal comes at once', async (t) => {
  const refusals: readonly (readonly [status: number, target: string, headers: Readonly<Record<string, string>>])[] = [
    [400, 'POST /a/%2e%2e', owner],
    [404, 'POST /nothing', owner],
    [405, 'PUT /datasets', owner],
    [401, 'POST /datasets', {}],
    [401, 'POST /datasets', oauth({ jwt: 'nonsense' })],
    [400, 'POST /datasets', { ...owner, 'x-organization-id': 'x' }],
    [401, 'POST /datasets', { ...member, ...inGlobex }],
    [403, 'POST /datasets', member],
    [403, 'POST /datasets', bearer(robotAdmin.apiKey)],
    [404, `POST /agent/${agents.globex}/responses`, owner],
    [404, `POST /clusters/${clusters.globex}/proxy/x`, admin],
    [403, `POST /clusters/${clusters.suspended}/proxy/x`, admin],
    [503, `POST /clusters/${clusters.stale}/proxy/x`, admin],
  ]
  await world.clearRecorder()
  const framings = [
    'Content-Length: 90000000',
    'Transfer-Encoding: chunked',
    'Content-Length: 9\r\nExpect: 100-continue',
  ]
  await Promise.all(
    refusals.flatMap(([status, target, headers]) =>
      framings.map(async (framing) => {
        const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
        const passedMs = startFairClock(t)
        const text = await world.raw(`${target} HTTP/1.1\r\nHost: a\r\n${lines.join('')}${framing}\r\n\r\n`)
        const name = `${status} ${target} ${framing.split('\r')[0]}`
        t.match(text, new RegExp(`^HTTP/1\\.1 ${status} `), name)
        t.ok(passedMs() < 3_000, `${name} within 3 s`)
      }),
    ),
  )
  t.strictSame(await world.recorded(), [])
})

t.test('an endpoint of the gateway without a body does not wait for one', async (t) => {
  const target = `POST /organizations/${organizations.acme.id}/switch HTTP/1.1`
  const text = await world.raw(
    `${target}\r\nHost: a\r\nContent-Length: 90000000\r\nx-oauth-access-token: ${users.admin.jwt}\r\n\r\n`,
  )
  t.match(text, /^HTTP\/1\.1 200 /)
})
