import { randomUUID } from 'node:crypto'
import pg from 'pg'
import t, { type Test } from 'tap'
import { call, callRaw } from '../support/client.ts'
import { startTestGateway } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, organizations } = world
const { acme, globex, initech } = organizations
const database = new pg.Client({ connectionString: world.databaseUrl })
await database.connect()
t.teardown(() => database.end())

const wildcard = '*.app.example'
const usual = { surface: 'platform', upstream: 'platform' }
const named = { ...usual, organization: { hostLabel: 'slug' } }
const upstream = await startHttpUpstream(t, (request, response) =>
  response.end(String(request.headers['x-organization-id'] ?? 'none')),
)
const gateway = await startTestGateway(t, {
  world,
  settings: { cors: { origins: ['https://acme.app.example'] } },
  upstreams: { platform: { url: upstream.url } },
  routes: [
    { id: 'tenant', match: { path: '/x/*', host: wildcard }, ...named, require: { role: 'org-member' } },
    { id: 'owners', match: { path: '/x/admin', host: wildcard }, ...named, require: { role: 'org-owner' } },
    { id: 'plain', match: { path: '/plain', host: wildcard }, ...usual },
    { id: 'exact', match: { path: '/exact', host: 'initech.app.example' }, ...usual },
    { id: 'open', match: { path: '/open' }, ...usual, access: 'public' },
  ],
})

type Headers = Readonly<Record<string, string>>

const owner = oauth(users.owner)
const member = oauth(users.member)
const organization = (id: number): Headers => ({ 'x-organization-id': String(id) })

/** The organization that the backend gets, or the status of the refusal. The decision listener has to say the same. */
async function answerAt(t: Test, host: string, headers: Headers, path = '/x/1') {
  const { status, text } = await call(gateway.public, { path, headers: { ...headers, host } })
  const families: readonly Headers[] = [
    { host, 'x-original-method': 'GET', 'x-original-uri': path },
    { host: 'gateway:8081', 'x-forwarded-method': 'GET', 'x-forwarded-uri': path, 'x-forwarded-host': host },
  ]
  for (const told of families) {
    const judged = await call(gateway.decision, { path: '/authorize', headers: { ...headers, ...told } })
    t.equal(judged.status, status, `${host}: ${Object.keys(told).join()}`)
    if (status === 200) t.equal(judged.headers['x-organization-id'] ?? 'none', text, `${host}: pinned`)
  }
  const envoy = await call(gateway.decision, { path: `/envoy${path}`, headers: { ...headers, host } })
  t.equal(envoy.status, status, `${host}: envoy`)
  return status === 200 ? text : status
}

t.test('the label of a wildcard host names the organization, as a path does', async (t) => {
  t.equal(await answerAt(t, 'acme.app.example', owner), String(acme.id))
  t.equal(await answerAt(t, 'globex.app.example', owner), String(globex.id))
  const rows: readonly (readonly [name: string, host: string, headers: Headers, status: number | string])[] = [
    ['a foreign organization', 'globex.app.example', member, 403],
    ['an unknown one', 'nowhere.app.example', owner, 403],
    ['the id instead of the slug', `${acme.id}.app.example`, owner, 403],
    ['without a credential', 'acme.app.example', {}, 401],
    ['the same header', 'acme.app.example', { ...owner, ...organization(acme.id) }, String(acme.id)],
    ['another of the caller’s', 'acme.app.example', { ...owner, ...organization(globex.id) }, 400],
    ['another, of others', 'acme.app.example', { ...member, ...organization(globex.id) }, 400],
    ['the caller’s, at a foreign label', 'globex.app.example', { ...member, ...organization(acme.id) }, 400],
    ['the label’s own, at a foreign label', 'globex.app.example', { ...member, ...organization(globex.id) }, 403],
    ['a third, at a foreign label', 'globex.app.example', { ...member, ...organization(initech.id) }, 403],
    ['a malformed header', 'acme.app.example', { ...owner, 'x-organization-id': 'acme' }, 400],
    ['the cookie of another', 'acme.app.example', { ...owner, cookie: `current-org-id=${globex.id}` }, String(acme.id)],
    ['a malformed cookie', 'acme.app.example', { ...owner, cookie: 'current-org-id=x' }, String(acme.id)],
    [
      'a foreign label and a good cookie',
      'globex.app.example',
      { ...member, cookie: `current-org-id=${acme.id}` },
      403,
    ],
  ]
  for (const [name, host, headers, expected] of rows) t.equal(await answerAt(t, host, headers), expected, name)
})

t.test('one host in each spelling that HTTP has is one label', async (t) => {
  for (const host of ['ACME.App.Example', 'acme.app.example.', 'acme.app.example:8443', 'acme.APP.example.:1'])
    t.equal(await answerAt(t, host, owner), String(acme.id), host)
  const absolute = `GET http://ACME.app.example/x/1 HTTP/1.1\r\nhost: acme.app.example\r\n`
  const other = `GET http://globex.app.example/x/1 HTTP/1.1\r\nhost: acme.app.example\r\n`
  const rest = `x-oauth-access-token: ${users.owner.jwt}\r\nconnection: close\r\n\r\n`
  t.match(await callRaw(gateway.public, absolute + rest), new RegExp(`^HTTP/1.1 200[^]*\\b${acme.id}\\r?\\n?`))
  t.match(await callRaw(gateway.public, other + rest), /^HTTP\/1.1 400/)
  const forwarded = { ...owner, host: 'acme.app.example', 'x-forwarded-host': 'globex.app.example' }
  t.equal((await call(gateway.public, { path: '/x/1', headers: forwarded })).text, String(acme.id))
})

t.test('a wildcard is one label, and never the domain itself, two labels or an address', async (t) => {
  for (const host of [
    'app.example',
    'a.acme.app.example',
    'acme.app.example.evil.example',
    '127.0.0.1',
    '[::1]',
    'acme',
  ])
    t.equal(await answerAt(t, host, owner), 404, host)
  for (const host of ['%61cme.app.example', '.app.example', 'acme..app.example', 'acme.app.example,globex.app.example'])
    t.equal((await call(gateway.public, { path: '/x/1', headers: { ...owner, host } })).status, 400, host)
  t.equal(await answerAt(t, 'acme.other.example', {}, '/open'), 'none', 'other hosts have the routes of any host')
})

t.test('an exact host wins, and its unknown paths and its label are not the wildcard’s', async (t) => {
  const insider = await addMember('insider', initech.id)
  t.equal(await answerAt(t, 'initech.app.example', insider), 404)
  t.equal(await answerAt(t, 'initech.app.example', insider, '/plain'), 404)
  t.equal(await answerAt(t, 'initech.app.example', insider, '/exact'), String(initech.id))
  t.equal(await answerAt(t, 'initech.app.example', {}, '/open'), 'none', 'routes of any host serve it as before')
  t.equal(await answerAt(t, 'globex.app.example', owner, '/exact'), 404)
})

t.test('a slug that is not a lower-case DNS label is never named, whatever decodes to it', async (t) => {
  const long = 'a'.repeat(63)
  const slugs = ['Upper', 'a_b', '-a', 'a-', 'bücher', 'xn--bcher-kva', long]
  const ids = new Map<string, number>()
  for (const slug of slugs) ids.set(slug, await addOrganization(slug))
  const headers = await addMember('collector', ...ids.values())
  for (const label of ['upper', 'Upper', 'a_b', 'a-b', '-a', 'a-'])
    t.equal(await answerAt(t, `${label}.app.example`, headers), 403, label)
  t.equal(await answerAt(t, 'xn--bcher-kva.app.example', headers), String(ids.get('xn--bcher-kva')), 'as it is written')
  t.equal(await answerAt(t, 'xn--upper.app.example', headers), 403)
  t.equal(await answerAt(t, `${long}.app.example`, headers), String(ids.get(long)))
  t.equal(
    (await call(gateway.public, { path: '/x/1', headers: { ...headers, host: `${long}a.app.example` } })).status,
    400,
  )
})

t.test('roles are those of the organization that the label names', async (t) => {
  t.equal(await answerAt(t, 'acme.app.example', owner, '/x/admin'), String(acme.id))
  t.equal(await answerAt(t, 'globex.app.example', owner, '/x/admin'), 403)
  t.equal(await answerAt(t, 'globex.app.example', owner, '/x/ADMIN'), 400, 'other readings count')
})

t.test('a route without the key takes the organization as elsewhere', async (t) => {
  t.equal(await answerAt(t, 'globex.app.example', member, '/plain'), String(acme.id))
  t.equal(await answerAt(t, 'acme.app.example', { ...owner, ...organization(globex.id) }, '/plain'), String(globex.id))
})

t.test('a sibling host is a foreign origin', async (t) => {
  const grantOf = async (origin: string) =>
    (await call(gateway.public, { path: '/open', headers: { host: 'acme.app.example', origin } })).headers[
      'access-control-allow-origin'
    ]
  t.equal(await grantOf('https://acme.app.example'), 'https://acme.app.example')
  t.equal(await grantOf('https://globex.app.example'), undefined)
})

async function addOrganization(slug: string): Promise<number> {
  const { rows } = await database.query<{ id: number }>(
    "insert into organizations (slug, name, account_type) values ($1, $1, 'team') returning id",
    [slug],
  )
  return rows[0]?.id ?? 0
}

async function addMember(name: string, ...memberships: readonly number[]): Promise<Headers> {
  const subject = randomUUID()
  const email = `${name}@example.com`
  const { rows } = await database.query<{ id: number }>(
    "insert into users (email, user_type) values ($1, 'human') returning id",
    [email],
  )
  const id = rows[0]?.id
  await database.query('insert into user_identities (user_id, issuer, subject) values ($1, $2, $3)', [
    id,
    world.oidc.issuer,
    subject,
  ])
  for (const one of memberships)
    await database.query(
      "insert into role_assignments (user_id, organization_id, role) values ($1, $2, 'org-member')",
      [id, one],
    )
  return { 'x-oauth-access-token': await world.mint({ sub: subject, email }) }
}
