import { randomUUID } from 'node:crypto'
import pg from 'pg'
import t, { type Test } from 'tap'
import type { Answer, JsonValue } from '../support/client.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, serviceAccounts, organizations } = world
const { acme, globex, initech } = organizations
const database = new pg.Client({ connectionString: world.databaseUrl })
await database.connect()
t.teardown(() => database.end())

type Headers = Readonly<Record<string, string | string[]>>

const at = (organization: number | string | string[]): Headers => ({
  'x-organization-id': Array.isArray(organization) ? organization : String(organization),
})
const cookie = (value: number | string): Headers => ({ cookie: `current-org-id=${value}` })

const owner = oauth(users.owner)
const homeless = oauth(users.homeless)
const member = oauth(users.member)

async function seen(headers: Headers) {
  const answer = await world.call({ path: '/public/seen', headers })
  if (answer.status !== 200) throw new Error(`${answer.status}: ${answer.text}`)
  const lines: readonly (readonly [string, string])[] = answer.json().headers
  const named = (name: string): readonly string[] =>
    lines.filter(([line]) => line.toLowerCase().replace(/[^a-z0-9]/g, '-') === name).map(([, value]) => value)
  const identities = named('x-gateway-identity')
  return { headers: named('x-organization-id'), identities, claims: readClaims(identities[0]) }
}

const readClaims = (jws = ''): JsonValue => JSON.parse(Buffer.from(jws.split('.')[1] ?? '', 'base64url').toString())

/** The pinned organization: one header line and one identity header that agree. */
async function pinned(headers: Headers): Promise<number | null> {
  const { headers: lines, identities, claims } = await seen(headers)
  const id = claims.organization?.id ?? null
  if (identities.length !== 1) throw new Error(`${identities.length} identity headers`)
  if (lines.join() !== (id === null ? '' : String(id))) throw new Error(`${id} pinned, but ${lines.join()} sent`)
  return id
}

/** Refused, without a request at a backend. */
async function refused(t: Test, headers: Headers, { method = 'GET', path = '/public/x' } = {}): Promise<Answer> {
  const mark = randomUUID()
  const answer = await world.call({ method, path, headers: { ...headers, 'x-mark': mark } })
  const arrived = (await world.recorded()).filter((request) => request.headers.some(([, value]) => value === mark))
  t.strictSame(arrived, [], 'no backend was reached')
  return answer
}

/** A new human with the memberships in the given order. */
async function createUser(memberships: readonly number[], current: number | null = null): Promise<Headers> {
  const sub = randomUUID()
  const { rows } = await database.query<{ id: number }>(
    "insert into users (email, user_type, current_organization_id) values ($1, 'human', $2) returning id",
    [`${sub}@example.com`, current],
  )
  const [user] = rows
  await database.query('insert into user_identities (user_id, issuer, subject) values ($1, $2, $3)', [
    user?.id,
    world.oidc.issuer,
    sub,
  ])
  for (const organization of memberships)
    await database.query('insert into role_assignments (user_id, organization_id, role) values ($1, $2, $3)', [
      user?.id,
      organization,
      'org-member',
    ])
  return oauth({ jwt: await world.mint({ sub, email: `${sub}@example.com` }) })
}

async function createOrganization(createdAt: string): Promise<number> {
  const { rows } = await database.query<{ id: number }>(
    'insert into organizations (slug, name, created_at) values ($1, $1, $2) returning id',
    [randomUUID(), createdAt],
  )
  const [row] = rows
  if (!row) throw new Error('nothing was inserted')
  return row.id
}

const notAMember = 'You are not a member of this organization.'
const noIds = ['', '0', '01', '-1', '+1', '1.0', '1e0', '0x1', '1,1', '1 1', '"1"', 'acme', 'null', '2147483648', '٣']
const latin1 = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')

t.test('the header pins the request to its organization', async (t) => {
  t.equal(await pinned({ ...owner, ...at(globex.id) }), globex.id)
  t.equal(await pinned({ ...owner, ...at(acme.id) }), acme.id)
})

t.test('the identity header carries the organization and the role held in it', async (t) => {
  const inAcme = await seen({ ...owner, ...at(acme.id) })
  const inGlobex = await seen({ ...owner, ...at(globex.id) })
  t.strictSame(inAcme.claims.organization, { id: acme.id, slug: 'acme', role: 'org-owner' })
  t.strictSame(inGlobex.claims.organization, { id: globex.id, slug: 'globex', role: 'org-member' })
  t.strictSame(inAcme.claims.roles, ['org-owner'])
  t.strictSame(inGlobex.claims.roles, ['org-member'])
})

t.test('the role that counts is the one in the organization in force', async (t) => {
  const create = { method: 'POST', path: '/datasets' }
  const here = await world.call({ ...create, headers: { ...owner, ...at(acme.id) } })
  t.equal(here.status, 200)
  const there = await refused(t, { ...owner, ...at(globex.id) }, create)
  t.equal(there.status, 403)
  t.equal(there.json().error.check, 'role')
})

t.test('a header other than a positive integer up to 2147483647 is 400', async (t) => {
  for (const value of noIds) {
    const answer = await refused(t, { ...owner, ...at(latin1(value)) })
    t.equal(answer.status, 400, JSON.stringify(value))
    t.equal(answer.json().error.code, 'invalid_organization_id', JSON.stringify(value))
  }
})

t.test('the largest id is an id like any other', async (t) => {
  const answer = await refused(t, { ...owner, ...at('2147483647') })
  t.equal(answer.status, 401)
  t.equal(answer.json().message, notAMember)
})

t.test('two header lines are 400, equal or not', async (t) => {
  for (const values of [
    [acme.id, acme.id],
    [acme.id, globex.id],
  ])
    t.equal((await refused(t, { ...owner, ...at(values.map(String)) })).status, 400, values.join())
})

t.test('the header of an organization without membership is 401, and an unknown one reads the same', async (t) => {
  const bodies = []
  for (const id of [initech.id, 999_999]) {
    const answer = await refused(t, { ...owner, ...at(id) })
    t.equal(answer.status, 401)
    t.equal(answer.headers['www-authenticate'], 'Bearer error="invalid_token"')
    const { requestId, ...error } = answer.json().error
    t.type(requestId, 'string')
    bodies.push({ ...answer.json(), error })
  }
  t.equal(bodies[0].message, notAMember)
  t.strictSame(bodies[0], bodies[1])
})

t.test('a platform role replaces no membership', async (t) => {
  const answer = await refused(t, { ...oauth(users.platformAdmin), ...at(globex.id) })
  t.equal(answer.status, 401)
  t.equal(answer.json().message, notAMember)
})

t.test('an API token is scoped like a session', async (t) => {
  const robot = bearer(serviceAccounts.robot.apiKey)
  t.equal(await pinned(robot), acme.id)
  t.equal(await pinned({ ...robot, ...at(acme.id) }), acme.id)
  t.equal((await refused(t, { ...robot, ...at(globex.id) })).status, 401)
  t.equal((await refused(t, { ...robot, ...at('acme') })).status, 400)
  t.equal((await refused(t, { ...robot, ...cookie(globex.id) })).status, 401)
})

t.test('spellings that resemble the header are neither believed nor forwarded', async (t) => {
  for (const name of ['x_organization_id', 'x-organization_id', 'x.organization.id', 'X_Organization-Id']) {
    t.equal(await pinned({ ...owner, [name]: String(globex.id) }), acme.id, name)
    t.equal(await pinned({ ...owner, ...at(globex.id), [name]: 'x' }), globex.id, name)
    t.equal(await pinned({ ...homeless, [name]: String(acme.id) }), null, name)
  }
})

t.test('the header is read even if Connection names it, and the backend gets the gateway’s', async (t) => {
  const connection = { connection: 'x-organization-id, x-gateway-identity' }
  t.equal(await pinned({ ...owner, ...at(globex.id), ...connection }), globex.id)
  t.equal(await pinned({ ...owner, ...connection }), acme.id)
})

t.test('without the header the cookie decides', async (t) => {
  t.equal(await pinned({ ...owner, ...cookie(globex.id) }), globex.id)
  t.equal(await pinned({ ...owner, cookie: `a=1; current-org-id=${globex.id}; b=2` }), globex.id)
  t.equal(await pinned({ ...owner, cookie: ['a=1', `current-org-id=${globex.id}`] }), globex.id)
})

t.test('the header decides over the cookie, whatever that holds', async (t) => {
  for (const value of [globex.id, initech.id, 'nonsense', ''])
    t.equal(await pinned({ ...owner, ...at(acme.id), ...cookie(value) }), acme.id, String(value))
})

t.test('a malformed cookie is 400', async (t) => {
  for (const value of noIds.filter((value) => value !== '')) {
    const answer = await refused(t, { ...owner, ...cookie(latin1(value)) })
    t.equal(answer.status, 400, value)
    t.equal(answer.json().error.code, 'invalid_organization_id', value)
  }
})

t.test('the cookie twice is 400, on one line or on two', async (t) => {
  const one = `current-org-id=${acme.id}`
  for (const lines of [`${one}; ${one}`, `${one}; current-org-id=${globex.id}`, `current-org-id=; ${one}`, [one, one]])
    t.equal((await refused(t, { ...owner, cookie: lines })).status, 400, String(lines))
})

t.test('an empty cookie is an absent one', async (t) => {
  t.equal(await pinned({ ...owner, ...cookie('') }), acme.id)
  t.equal(await pinned({ ...homeless, ...cookie('') }), null)
})

t.test('the cookie of an organization without membership is 401, and an unknown one reads the same', async (t) => {
  for (const id of [initech.id, 999_999]) {
    const answer = await refused(t, { ...owner, ...cookie(id) })
    t.equal(answer.status, 401)
    t.equal(answer.json().message, notAMember)
  }
})

t.test('without header and cookie the stored current organization is in force', async (t) => {
  t.equal(await pinned(await createUser([acme.id, globex.id], globex.id)), globex.id)
  t.equal(await pinned(await createUser([globex.id, acme.id], acme.id)), acme.id)
})

t.test('header and cookie decide over the stored current organization', async (t) => {
  const user = await createUser([acme.id, globex.id, initech.id], globex.id)
  t.equal(await pinned({ ...user, ...cookie(initech.id) }), initech.id)
  t.equal(await pinned({ ...user, ...at(acme.id) }), acme.id)
  t.equal(await pinned({ ...user, ...at(acme.id), ...cookie(initech.id) }), acme.id)
})

t.test('a stored organization whose membership was revoked falls back to the oldest, without error', async (t) => {
  t.equal(await pinned(await createUser([initech.id, globex.id], acme.id)), globex.id)
})

t.test('a stored organization does not count for a user without memberships', async (t) => {
  t.equal(await pinned(await createUser([], acme.id)), null)
})

t.test('without a stored organization the oldest is in force, by creation and not by membership or id', async (t) => {
  t.equal(await pinned(owner), acme.id)
  t.equal(await pinned(await createUser([initech.id, globex.id, acme.id])), acme.id)
  const young = await createOrganization('2020-01-02')
  const old = await createOrganization('2020-01-01')
  t.ok(young < old)
  t.equal(await pinned(await createUser([young, old])), old)
})

t.test('the oldest of organizations created at the same moment is that with the lowest id', async (t) => {
  const first = await createOrganization('2019-01-01')
  const second = await createOrganization('2019-01-01')
  t.equal(await pinned(await createUser([second, first])), first)
})

t.test('a user without any organization goes on without one', async (t) => {
  const { headers, claims } = await seen(homeless)
  t.strictSame(headers, [])
  t.equal(claims.organization, null)
  t.strictSame(claims.roles, [])
  t.strictSame(claims.abilities, [])
})

t.test('a user without any organization is a member of none that is named', async (t) => {
  t.equal((await refused(t, { ...homeless, ...at(acme.id) })).status, 401)
  t.equal((await refused(t, { ...homeless, ...cookie(acme.id) })).status, 401)
})

t.test('a route that requires a role answers 403 without an organization', async (t) => {
  const answer = await refused(t, homeless, { path: '/datasets' })
  t.equal(answer.status, 403)
  t.equal(answer.json().error.check, 'role')
})

t.test('a platform role without an organization is 403 where a role is required', async (t) => {
  const sub = randomUUID()
  const { rows } = await database.query<{ id: number }>(
    "insert into users (email, user_type) values ($1, 'human') returning id",
    [`${sub}@example.com`],
  )
  const values = [rows[0]?.id, world.oidc.issuer, sub]
  await database.query('insert into user_identities (user_id, issuer, subject) values ($1, $2, $3)', values)
  await database.query("insert into role_assignments (user_id, role) values ($1, 'admin')", [rows[0]?.id])
  const user = oauth({ jwt: await world.mint({ sub, email: `${sub}@example.com` }) })
  t.equal((await refused(t, user, { path: '/datasets' })).status, 403)
  t.equal(await pinned(user), null)
})

t.test('one user holds one role in an organization', async (t) => {
  const again = database.query("insert into role_assignments (user_id, organization_id, role) values ($1, $2, 'x')", [
    users.owner.id,
    acme.id,
  ])
  await t.rejects(again, { code: '23505' })
})

const switchTo = (id: number | string) => ({ method: 'POST', path: `/organizations/${id}/switch` })

t.test('a route that takes its organization from the path asks for membership, else 403', async (t) => {
  t.equal((await world.call({ ...switchTo(acme.id), headers: member })).status, 200)
  for (const id of [globex.id, 999_999, 2_147_483_647]) {
    const answer = await refused(t, member, switchTo(id))
    t.equal(answer.status, 403, String(id))
    t.equal(answer.json().message, notAMember)
    t.equal(answer.json().error.status, 403)
  }
  t.equal((await refused(t, oauth(users.platformAdmin), switchTo(globex.id))).status, 403, 'bypass or not')
})

t.test('a malformed id in the path is 404', async (t) => {
  for (const id of ['0', '01', '-1', '+1', '1.0', '1e0', 'acme', '1%20', '2147483648', '1;v=1'])
    t.equal((await refused(t, member, switchTo(id))).status, 404, id)
})

t.test('an escaped digit in the path is that digit', async (t) => {
  t.equal((await world.call({ ...switchTo(`%3${acme.id}`), headers: member })).status, 200)
})

t.test('beside an organization in the path the same header is welcome', async (t) => {
  t.equal((await world.call({ ...switchTo(acme.id), headers: { ...member, ...at(acme.id) } })).status, 200)
})

t.test('beside an organization in the path any other header is 400', async (t) => {
  const user = await createUser([acme.id, globex.id])
  const others = [globex.id, initech.id, `0${acme.id}`, '', 'acme', [String(acme.id), String(acme.id)]]
  for (const other of others) {
    const answer = await refused(t, { ...user, ...at(other) }, switchTo(acme.id))
    t.equal(answer.status, 400, String(other))
    t.equal(answer.json().error.code, 'invalid_organization_id')
  }
  const me = await world.call({ path: '/users/me', headers: user })
  t.equal(me.json().data.currentOrganizationId, null, 'and nothing was stored')
})

t.test('beside an organization in the path the cookie is not looked at', async (t) => {
  const one = `current-org-id=${globex.id}`
  for (const line of [one, 'current-org-id=nonsense', `current-org-id=${initech.id}`, `${one}; ${one}`])
    t.equal((await world.call({ ...switchTo(acme.id), headers: { ...member, cookie: line } })).status, 200, line)
})

t.test('an unknown path is 404 whatever the organization, and a missing credential 401', async (t) => {
  t.equal((await refused(t, { ...owner, ...at('x') }, { path: '/nothing' })).status, 404)
  const anonymous = await refused(t, at('x'))
  t.equal(anonymous.status, 401)
  t.not(anonymous.json().message, notAMember)
  t.equal((await refused(t, cookie('x'))).status, 401)
  t.equal((await refused(t, { ...owner, ...bearer('oat_x'), ...at('x') })).json().error.code, 'ambiguous_credentials')
})

t.test('a malformed or foreign organization is told before a missing role', async (t) => {
  const admin = { path: '/admin/x' }
  t.equal((await refused(t, { ...member, ...at('x') }, admin)).status, 400)
  t.equal((await refused(t, { ...member, ...at(globex.id) }, admin)).status, 401)
  t.equal((await refused(t, { ...member, ...cookie('x') }, admin)).status, 400)
  t.equal((await refused(t, { ...member, ...cookie(globex.id) }, admin)).status, 401)
  t.equal((await refused(t, { ...member, ...at(acme.id) }, admin)).status, 403)
})

t.test('a malformed header is told before a malformed path or a foreign one', async (t) => {
  t.equal((await refused(t, { ...member, ...at('x') }, switchTo('x'))).status, 400)
  t.equal((await refused(t, { ...member, ...at('x') }, switchTo(globex.id))).status, 400)
  t.equal((await refused(t, { ...member, ...at(acme.id) }, switchTo(globex.id))).status, 400)
  t.equal((await refused(t, { ...member, ...at(globex.id) }, switchTo(globex.id))).status, 403)
})

t.test('a public route looks at no organization, and passes none on', async (t) => {
  const mark = randomUUID()
  for (const value of ['x', String(acme.id)]) {
    const headers = { ...owner, ...at(value), ...cookie('x'), 'x-mark': mark }
    t.equal((await world.call({ path: '/status', headers })).status, 200)
  }
  const arrived = (await world.recorded()).filter((request) => request.headers.some(([, value]) => value === mark))
  t.equal(arrived.length, 2)
  for (const { headers } of arrived) t.notOk(headers.some(([name]) => /^x-(organization-id|gateway-)/i.test(name)))
})
