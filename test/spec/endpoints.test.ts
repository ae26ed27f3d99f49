import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { crc32 } from 'node:zlib'
import pg from 'pg'
import t, { type Test } from 'tap'
import type { Call, JsonValue } from '../support/client.ts'
import { bearer, oauth, type RecordedRequest, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, serviceAccounts, organizations, clusters } = world
const { acme, globex, initech } = organizations
const { robot, robotAdmin } = serviceAccounts
const database = new pg.Client({ connectionString: world.databaseUrl })
await database.connect()
t.teardown(() => database.end())

type Headers = Readonly<Record<string, string>>

const owner = oauth(users.owner)
const admin = oauth(users.admin)
const member = oauth(users.member)
const at = (id: number): Headers => ({ 'x-organization-id': String(id) })

async function insert(text: string, values: readonly unknown[]): Promise<number> {
  const { rows } = await database.query<{ id: number }>(`insert into ${text} returning id`, [...values])
  const [row] = rows
  if (!row) throw new Error('nothing was inserted')
  return row.id
}

type Membership = readonly [organization: number | null, role: string]

async function createUser(...memberships: Membership[]): Promise<Readonly<{ id: number; headers: Headers }>> {
  const sub = randomUUID()
  const id = await insert("users (email, user_type) values ($1, 'human')", [`${sub}@example.com`])
  await insert('user_identities (user_id, issuer, subject) values ($1, $2, $3)', [id, world.oidc.issuer, sub])
  for (const membership of memberships)
    await insert('role_assignments (user_id, organization_id, role) values ($1, $2, $3)', [id, ...membership])
  return { id, headers: oauth({ jwt: await world.mint({ sub, email: `${sub}@example.com` }) }) }
}

async function createToken(userId: number, name: string | null, expiresAt: Date | null): Promise<string> {
  const random = randomBytes(20).toString('hex')
  const secret = `${random}${crc32(random)}`
  const id = await insert(
    `auth_access_tokens (tokenable_id, type, name, hash, abilities, created_at, updated_at, expires_at)
     values ($1, 'auth_token', $2, $3, '["datasets:read"]', now(), now(), $4)`,
    [userId, name, createHash('sha256').update(secret).digest('hex'), expiresAt],
  )
  const encode = (text: string): string => Buffer.from(text).toString('base64url')
  return `oat_${encode(String(id))}.${encode(secret)}`
}

async function data(t: Test, request: Call): Promise<JsonValue> {
  const answer = await world.call(request)
  t.equal(answer.status, 200, answer.text)
  t.match(answer.headers['content-type'], /^application\/json/)
  const { success, data, ...rest } = answer.json()
  t.equal(success, true)
  t.strictSame(rest, {})
  return data
}

const me = (t: Test, headers: Headers): Promise<JsonValue> => data(t, { path: '/users/me', headers })

const readExp = (jwt: string): number => {
  const { exp } = JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString())
  return exp
}

const dateTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/

t.test('GET /users/me is the AuthenticatedUser, with every field of the specification and no other', async (t) => {
  const { currentOrganization, roles, ...user } = await me(t, member)
  t.strictSame(user, {
    id: users.member.id,
    email: 'member@demo.example',
    username: 'member',
    firstName: 'Member',
    lastName: 'Demo',
    fullName: 'Member Demo',
    userType: 'human',
    currentOrganizationId: null,
    canWriteToCurrentOrganization: false,
    canModifyCurrentOrganization: false,
    ownsCurrentOrganization: false,
    organizationUserPermission: 'read',
    currentAccessToken: {
      type: 'oauth',
      name: null,
      abilities: ['*'],
      lastUsedAt: null,
      expiresAt: new Date(readExp(users.member.jwt) * 1000).toISOString(),
    },
  })
  const { createdAt, updatedAt, ...organization } = currentOrganization
  t.match(createdAt, dateTime)
  t.match(updatedAt, dateTime)
  const { rows } = await database.query('select count(*) from role_assignments where organization_id = $1', [acme.id])
  t.strictSame(organization, {
    id: acme.id,
    name: 'Acme',
    slug: 'acme',
    description: 'Acme of the demo world',
    logoUrl: null,
    websiteUrl: null,
    contactEmail: 'hello@acme.example',
    location: null,
    companySize: null,
    domain: null,
    accountType: 'enterprise',
    isVerified: true,
    memberCount: rows[0]?.count,
  })
  t.type(organization.memberCount, 'string')
  t.equal(roles.length, 1)
  const [{ id, description, ...role }] = roles
  t.type(id, 'number')
  t.type(description, 'string')
  t.strictSame(role, { name: 'Member', slug: 'org-member', organizationId: acme.id })
})

t.test('roles lists every assignment, those on the platform without an organization', async (t) => {
  const short = (roles: JsonValue) => roles.map((role: JsonValue) => [role.slug, role.organizationId])
  t.strictSame(short((await me(t, owner)).roles), [
    ['org-owner', acme.id],
    ['org-member', globex.id],
  ])
  t.strictSame(short((await me(t, oauth(users.platformAdmin))).roles), [
    ['org-client', acme.id],
    ['admin', null],
  ])
  t.strictSame((await me(t, oauth(users.homeless))).roles, [])
})

t.test('a role that the policy does not list is shown by its slug', async (t) => {
  const { headers } = await createUser([acme.id, 'org-visitor'])
  const { roles, organizationUserPermission } = await me(t, headers)
  const [{ id: _, ...role }] = roles
  t.strictSame(role, { name: 'org-visitor', slug: 'org-visitor', description: null, organizationId: acme.id })
  t.equal(organizationUserPermission, null)
})

t.test('currentOrganization is the one in force for the request, currentOrganizationId the stored one', async (t) => {
  const user = await me(t, { ...owner, ...at(globex.id) })
  t.equal(user.currentOrganization.slug, 'globex')
  t.equal(user.currentOrganizationId, null)
})

type Permission = readonly [write: boolean, modify: boolean, owns: boolean, permission: string]

const permissions: readonly (readonly [name: string, headers: Headers, ...Permission])[] = [
  ['an owner', owner, true, true, true, 'own'],
  ['an administrator', admin, true, true, false, 'write'],
  ['a member', member, false, false, false, 'read'],
  ['a client', oauth(users.client), false, false, false, 'execute'],
  ['the owner of one organization as a member of another', { ...owner, ...at(globex.id) }, false, false, false, 'read'],
  ['a platform administrator, whose bypass stands in', oauth(users.platformAdmin), true, true, true, 'own'],
  ["a member's key", bearer(robot.apiKey), false, false, false, 'read'],
  ["a member's secret", bearer(robot.apiSecret), false, false, false, 'read'],
  ["an administrator's key, which writes nothing", bearer(robotAdmin.apiKey), false, false, false, 'write'],
  ["an administrator's secret, without organizations:write", bearer(robotAdmin.apiSecret), true, false, false, 'write'],
]

for (const [name, headers, ...expected] of permissions)
  t.test(`the permission fields are those of ${name}`, async (t) => {
    const user = await me(t, headers)
    t.strictSame(
      [
        user.canWriteToCurrentOrganization,
        user.canModifyCurrentOrganization,
        user.ownsCurrentOrganization,
        user.organizationUserPermission,
      ],
      expected,
    )
  })

t.test('without an organization currentOrganization and the four permission fields are null', async (t) => {
  const user = await me(t, oauth(users.homeless))
  for (const field of [
    'currentOrganizationId',
    'currentOrganization',
    'canWriteToCurrentOrganization',
    'canModifyCurrentOrganization',
    'ownsCurrentOrganization',
    'organizationUserPermission',
  ])
    t.equal(user[field], null, field)
  t.equal(user.currentAccessToken.type, 'oauth')
})

t.test("a session's expiry is that of its token", async (t) => {
  const jwt = await world.mint({ sub: 'demo-member', email: 'member@demo.example', expiresIn: 77 })
  const { currentAccessToken } = await me(t, oauth({ jwt }))
  t.equal(currentAccessToken.expiresAt, new Date(readExp(jwt) * 1000).toISOString())
})

t.test('a service account sees the metadata of the token that it sent', async (t) => {
  const { userType, username, firstName, currentAccessToken } = await me(t, bearer(robot.apiKey))
  t.strictSame([userType, username, firstName], ['client-managed', 'robot', null])
  const { lastUsedAt, abilities, ...token } = currentAccessToken
  t.strictSame(token, { type: 'bearer', name: 'demo key', expiresAt: null })
  t.ok(lastUsedAt === null || dateTime.test(lastUsedAt))
  t.strictSame([...abilities].sort(), [
    'agents:execute',
    'agents:read',
    'clusters:read',
    'datasets:read',
    'entries:read',
    'files:read',
    'metrics:read',
    'models:read',
    'workflows:execute',
    'workflows:read',
  ])
})

t.test("a token's name may be null, and its expiry is a date-time", async (t) => {
  const expiresAt = new Date(Date.now() + 3_600_000)
  const { currentAccessToken } = await me(t, bearer(await createToken(robot.id, null, expiresAt)))
  t.equal(currentAccessToken.name, null)
  t.equal(currentAccessToken.expiresAt, expiresAt.toISOString())
})

t.test('the credential is never echoed', async (t) => {
  for (const [secret, headers] of [
    [users.member.jwt, member],
    [robot.apiKey, bearer(robot.apiKey)],
  ] as const)
    for (const path of ['/users/me', '/users/me/abilities']) {
      const { text } = await world.call({ path, headers })
      const parts = secret.split('.').filter((part) => part.length > 20)
      for (const part of parts) {
        t.notOk(text.includes(part), path)
        const plain = Buffer.from(part, 'base64url').toString()
        t.notOk(text.includes(createHash('sha256').update(plain).digest('hex')), path)
      }
    }
})

t.test('the endpoints of the user need a credential, and reach no backend', async (t) => {
  await world.clearRecorder()
  for (const path of ['/users/me', '/users/me/abilities']) {
    t.equal((await world.call({ path })).status, 401, path)
    t.equal((await world.call({ path, headers: member })).status, 200, path)
    const head = await world.call({ method: 'HEAD', path, headers: member })
    t.equal(head.status, 200)
    t.equal(head.text, '')
  }
  t.strictSame(await world.recorded(), [])
})

t.test('a first login sees itself, without any organization', async (t) => {
  const sub = randomUUID()
  const claims = { given_name: 'Ada', family_name: 'L', preferred_username: 'ada' }
  const user = await me(t, oauth({ jwt: await world.mint({ sub, email: 'ada@example.com', claims }) }))
  t.match(user, { email: 'ada@example.com', username: 'ada', firstName: 'Ada', lastName: 'L', fullName: 'Ada L' })
  t.strictSame([user.userType, user.currentOrganization, user.roles], ['human', null, []])
})

const none = { active: false, scopes: [] }
const ofClient = ['agents:execute', 'workflows:execute']
const ofKey = [
  ...ofClient,
  'agents:read',
  'clusters:read',
  'datasets:read',
  'entries:read',
  'files:read',
  'metrics:read',
  'models:read',
  'workflows:read',
]
const ofMember = [...ofKey, 'files:write']
const ofSecret = [
  ...ofMember,
  'agents:write',
  'clusters:write',
  'datasets:write',
  'entries:write',
  'models:write',
  'tokens:manage',
  'workflows:write',
]
const ofAdmin = [...ofSecret, 'organizations:write']
const ofOwner = [...ofAdmin, 'organizations:manage']

const abilities: readonly (readonly [
  name: string,
  headers: Headers,
  abilities: readonly string[],
  bypass?: unknown,
])[] = [
  ['a client has those of its role', oauth(users.client), ofClient],
  ['a member has those of its role', member, ofMember],
  ['an administrator has those of its role', admin, ofAdmin],
  ['an owner has those of its role', owner, ofOwner],
  ['an owner has those of the role in force', { ...owner, ...at(globex.id) }, ofMember],
  ["a member's key has what both allow", bearer(robot.apiKey), ofKey],
  ["a member's secret has what both allow", bearer(robot.apiSecret), ofMember],
  ["an administrator's key has what both allow", bearer(robotAdmin.apiKey), ofKey],
  ["an administrator's secret has what both allow", bearer(robotAdmin.apiSecret), ofSecret],
  ['a caller without an organization has none', oauth(users.homeless), []],
  ['a bypass scope has all in an organization', oauth(users.platformAdmin), ['*'], { active: true, scopes: ['admin'] }],
]

for (const [name, headers, expected, bypass = none] of abilities)
  t.test(`GET /users/me/abilities: ${name}`, async (t) => {
    const { abilities, ...rest } = await data(t, { path: '/users/me/abilities', headers })
    t.strictSame([...abilities].sort(), [...expected].sort())
    t.strictSame(rest, { bypass })
  })

t.test('GET /users/me/abilities: a bypass scope without an organization is held, but not active', async (t) => {
  const { headers } = await createUser([null, 'admin'], [null, 'user'])
  t.strictSame(await data(t, { path: '/users/me/abilities', headers }), {
    abilities: [],
    bypass: { active: false, scopes: ['admin'] },
  })
})

const switchTo = (id: number | string, headers: Headers): Call => ({
  method: 'POST',
  path: `/organizations/${id}/switch`,
  headers,
})

async function storedOrganization(userId: number): Promise<number | null> {
  const { rows } = await database.query('select current_organization_id as id from users where id = $1', [userId])
  return rows[0]?.id
}

t.test('a switch stores the organization and answers with the user as it now is', async (t) => {
  const { id, headers } = await createUser([acme.id, 'org-member'], [globex.id, 'org-admin'])
  const user = await data(t, switchTo(globex.id, headers))
  t.equal(user.id, id)
  t.equal(user.currentOrganizationId, globex.id)
  t.equal(user.currentOrganization.slug, 'globex')
  t.equal(user.organizationUserPermission, 'write')
  t.equal(await storedOrganization(id), globex.id)
  t.strictSame(user, await me(t, headers), 'which is what GET /users/me says')
})

t.test('a switch is the default of later requests, under header and cookie', async (t) => {
  const { headers } = await createUser([acme.id, 'org-member'], [globex.id, 'org-member'], [initech.id, 'org-member'])
  const inForce = async (more: Headers = {}): Promise<string> =>
    (await me(t, { ...headers, ...more })).currentOrganization.slug
  t.equal(await inForce(), 'acme')
  await data(t, switchTo(globex.id, headers))
  t.equal(await inForce(), 'globex')
  t.equal(await inForce(at(initech.id)), 'initech')
  t.equal(await inForce({ cookie: `current-org-id=${acme.id}` }), 'acme')
  t.equal(await inForce(), 'globex', 'and these changed nothing')
  await data(t, switchTo(initech.id, headers))
  t.equal(await inForce(), 'initech')
})

t.test('a switch to the organization that is stored already is 200, and writes nothing', async (t) => {
  const { id, headers } = await createUser([acme.id, 'org-member'], [globex.id, 'org-admin'])
  await data(t, switchTo(globex.id, headers))
  const read = async () =>
    (
      await database.query(
        `select xmin, updated_at, (select count(*) from audit_events where subject_id = $1) as events from users where id = $1`,
        [id],
      )
    ).rows[0]
  const before = await read()
  t.equal(before.events, '1')
  for (let count = 0; count < 3; count++)
    t.equal((await data(t, switchTo(globex.id, headers))).currentOrganizationId, globex.id)
  t.same(await read(), before)
  // The database decides, whatever a cache still holds.
  await database.query('update users set current_organization_id = $2 where id = $1', [id, acme.id])
  await data(t, switchTo(globex.id, headers))
  t.equal(await storedOrganization(id), globex.id)
})

t.test('a switch needs membership, else it is 403 and stores nothing', async (t) => {
  const { id, headers } = await createUser([acme.id, 'org-owner'])
  await data(t, switchTo(acme.id, headers))
  for (const other of [globex.id, 999_999]) {
    const answer = await world.call(switchTo(other, headers))
    t.equal(answer.status, 403, String(other))
    t.match(answer.json(), { success: false, error: { status: 403 } })
  }
  t.equal(await storedOrganization(id), acme.id)
})

t.test('a switch to a malformed id is 404 and stores nothing', async (t) => {
  const { id, headers } = await createUser([acme.id, 'org-owner'])
  for (const other of ['0', '01', 'acme', '1.0', '2147483648'])
    t.equal((await world.call(switchTo(other, headers))).status, 404, other)
  t.equal(await storedOrganization(id), null)
})

t.test('a switch needs a credential', async (t) => {
  t.equal((await world.call(switchTo(acme.id, {}))).status, 401)
  t.equal((await world.call(switchTo(acme.id, bearer(robot.revoked)))).status, 401)
})

t.test('the lowest role may switch, and a service account whose token may write', async (t) => {
  t.equal((await data(t, switchTo(acme.id, oauth(users.client)))).currentOrganizationId, acme.id)
  const user = await data(t, switchTo(acme.id, bearer(robot.apiSecret)))
  t.equal(user.currentOrganizationId, acme.id)
  t.equal(user.currentAccessToken.type, 'bearer')
})

t.test('a switch does not care for a body', async (t) => {
  const { headers } = await createUser([acme.id, 'org-member'])
  for (const body of ['', '{}', 'no json', JSON.stringify({ organizationId: globex.id })]) {
    const user = await data(t, { ...switchTo(acme.id, headers), body })
    t.equal(user.currentOrganizationId, acme.id)
  }
})

t.test("one user's switch does not affect others", async (t) => {
  const one = await createUser([acme.id, 'org-member'], [globex.id, 'org-member'])
  const two = await createUser([acme.id, 'org-member'], [globex.id, 'org-member'])
  await data(t, switchTo(globex.id, one.headers))
  t.equal((await me(t, two.headers)).currentOrganization.slug, 'acme')
})

const proxy = (cluster: number | string, rest = 'entries'): string => `/clusters/${cluster}/proxy/${rest}`

async function proxied(t: Test, request: Call): Promise<RecordedRequest | undefined> {
  await world.clearRecorder()
  const answer = await world.call(request)
  t.equal(answer.status, 200, answer.text)
  const recorded = await world.recorded()
  t.equal(recorded.length, 1)
  return recorded[0]
}

t.test('the cluster proxy forwards path and query to the cluster, byte for byte', async (t) => {
  for (const rest of [
    'entries',
    'entries/',
    'entries?',
    'entries?a=1&a=2&b=%2F..%2f&c=/../x//y?z',
    'a%20b/%C3%A9/%c3%a9;v=1/x,y/$&+=@:!*()/~',
    'proxy/clusters/1/proxy/x',
    '%31?%31',
  ]) {
    const recorded = await proxied(t, { path: proxy(clusters.healthy, rest), headers: member })
    t.equal(recorded?.requestLine, `GET /${rest} HTTP/1.1`)
    t.equal(recorded?.backend, 'cluster-healthy')
  }
})

t.test('the cluster proxy forwards method and body', async (t) => {
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
    const body = randomBytes(1000)
    const recorded = await proxied(t, { method, path: proxy(clusters.healthy, 'x'), headers: admin, body })
    t.match(recorded?.requestLine, new RegExp(`^${method} /x `))
    t.equal(recorded?.bodySha256, createHash('sha256').update(body).digest('hex'))
    t.equal(recorded?.bodyComplete, true)
  }
})

t.test('the cluster proxy pins the organization, and forwards no credential', async (t) => {
  const recorded = await proxied(t, { path: proxy(clusters.healthy), headers: member })
  const headers = Object.fromEntries((recorded?.headers ?? []).map(([name, value]) => [name.toLowerCase(), value]))
  t.equal(headers['x-organization-id'], String(acme.id))
  t.ok(headers['x-gateway-identity'])
  t.notOk('x-oauth-access-token' in headers || 'authorization' in headers)
})

t.test('the cluster proxy relays status and body untouched', async (t) => {
  const body = '{ "detail" :  "as it came",\n"n":1.0 }\n'
  for (const status of [200, 201, 206, 400, 401, 403, 404, 409, 418, 422, 429, 500, 502, 503]) {
    const demo = { status, headers: { 'content-type': 'application/json', 'x-odd': 'yes' }, body }
    const headers = { ...member, 'x-demo-answer': JSON.stringify(demo) }
    const answer = await world.call({ path: proxy(clusters.healthy), headers })
    t.strictSame([answer.status, answer.text, answer.headers['x-odd']], [status, body, 'yes'])
  }
})

t.test("a cluster's own {detail} comes through", async (t) => {
  const answer = await world.call({ path: proxy(clusters.healthy, 'entries/99'), headers: member })
  t.equal(answer.status, 404)
  t.strictSame(answer.json(), { detail: 'Entry 99 not found' })
})

const states: readonly (readonly [name: string, id: number | string, status: number, code: string])[] = [
  ["another organization's cluster is 404", clusters.globex, 404, 'resource_not_found'],
  ['an unknown cluster is 404', 999_999, 404, 'resource_not_found'],
  ['a malformed cluster id is 404', 'healthy', 404, 'resource_not_found'],
  ['a suspended cluster is 403', clusters.suspended, 403, 'cluster_suspended'],
  ['a cluster with a stale heartbeat is 503', clusters.stale, 503, 'cluster_offline'],
  ['a cluster that is being deleted is 503', clusters.deleting, 503, 'cluster_offline'],
  ['a cluster that cannot be reached is 503', clusters.unreachable, 503, 'upstream_unavailable'],
]

for (const [name, id, status, code] of states)
  t.test(`${name}, for reading and writing, in the platform's shape`, async (t) => {
    await world.clearRecorder()
    for (const method of ['GET', 'POST', 'DELETE']) {
      const answer = await world.call({ method, path: proxy(id), headers: admin })
      t.equal(answer.status, status, method)
      const { success, message, error } = answer.json()
      t.equal(success, false)
      t.type(message, 'string')
      t.strictSame([error.status, error.code], [status, code])
    }
    t.strictSame(await world.recorded(), [])
  })

t.test("a cluster answers to its own organization's members alone", async (t) => {
  const path = proxy(clusters.globex)
  t.equal((await world.call({ path, headers: owner })).status, 404)
  t.equal((await world.call({ path, headers: { ...owner, ...at(globex.id) } })).status, 200)
  t.equal((await world.call({ path, headers: { ...member, ...at(globex.id) } })).status, 401)
})

type ClusterFacts = Readonly<{ silentSeconds: number | null; status?: string; baseUrl?: string }>

/** A cluster in an organization of its own, and a member of that. */
async function createCluster({ silentSeconds, status = 'active', baseUrl }: ClusterFacts) {
  const organization = await insert('organizations (slug, name) values ($1, $1)', [randomUUID()])
  const { headers } = await createUser([organization, 'org-member'])
  const { rows } = await database.query('select base_url from clusters where id = $1', [clusters.healthy])
  // The demo's own heartbeats skip this name.
  const id = await insert(
    `clusters (organization_id, name, slug, base_url, status, last_heartbeat_at)
     values ($1, 'Own', 'stale', $2, $3, now() - make_interval(secs => $4))`,
    [organization, baseUrl ?? rows[0]?.base_url, status, silentSeconds],
  )
  return { path: proxy(id), headers, healthyUrl: String(rows[0]?.base_url) }
}

t.test('a heartbeat counts for a minute', async (t) => {
  const status = async (silentSeconds: number | null): Promise<number> =>
    (await world.call(await createCluster({ silentSeconds }))).status
  t.equal(await status(0), 200)
  t.equal(await status(50), 200)
  t.equal(await status(61), 503)
  t.equal(await status(null), 503, 'none at all')
})

t.test('a suspended cluster is 403 however old its heartbeat is', async (t) => {
  t.equal((await world.call(await createCluster({ silentSeconds: 3600, status: 'suspended' }))).status, 403)
})

t.test("a cluster's base address may have a path of its own", async (t) => {
  const { healthyUrl } = await createCluster({ silentSeconds: 0 })
  for (const base of ['/base', '/base/']) {
    const { path, headers } = await createCluster({ silentSeconds: 0, baseUrl: `${healthyUrl}${base}` })
    const recorded = await proxied(t, { path: `${path}?a=1`, headers })
    t.equal(recorded?.requestLine, 'GET /base/entries?a=1 HTTP/1.1')
  }
})

t.test('a cluster whose address makes no sense is unreachable', async (t) => {
  for (const baseUrl of ['', 'nowhere', 'ftp://127.0.0.1/', 'file:///etc/passwd', 'http://']) {
    const answer = await world.call(await createCluster({ silentSeconds: 0, baseUrl }))
    t.equal(answer.status, 503, baseUrl)
    t.equal(answer.json().error.code, 'upstream_unavailable')
  }
})
