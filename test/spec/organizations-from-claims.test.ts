import { randomInt, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import pg from 'pg'
import t, { type Test } from 'tap'
import { loadConfiguration } from '../../gateway/configuration/configuration.ts'
import { checkIssuers } from '../../gateway/run/boot/check-issuers.ts'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { declaredOf, startJoinedFixture } from '../support/claims-gateway.ts'
import { type Answer, type Call, call } from '../support/client.ts'
import { runCommand } from '../support/command-line.ts'
import { anyPort, until, writeConfiguration } from '../support/gateway.ts'
import { readAnswer } from '../support/streams.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { bearer, oauth, patience, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, serviceAccounts, organizations } = world
const fixture = await startJoinedFixture(t, world, {
  listeners: {
    public: anyPort,
    admin: anyPort,
    decision: { ...anyPort, authzen: { url: 'https://pdp.example' } },
  },
})
const { as, issuer } = fixture
const database = new pg.Client({ connectionString: world.databaseUrl })
await database.connect()
t.teardown(() => database.end())

const [umbrella, hooli] = [1_007, 1_008]
const acme = organizations.acme.id
const at = (organization: number): Record<string, string> => ({ 'x-organization-id': String(organization) })

async function refused(t: Test, request: Call, status: number, code: string, on = fixture): Promise<Answer> {
  const id = randomUUID()
  const answer = await on.call({ ...request, headers: { ...request.headers, 'x-request-id': id } })
  t.equal(answer.status, status, answer.text)
  t.equal(answer.json().error?.code, code)
  t.notOk(on.arrived(id), 'no upstream was asked')
  return answer
}

async function allowed(t: Test, request: Call, on = fixture): Promise<Answer> {
  const answer = await on.call(request)
  t.equal(answer.status, 200, answer.text)
  return answer
}

const organizationOf = async (headers: Record<string, string>): Promise<unknown> =>
  (await fixture.identityOf(headers)).organization

/** A user of the keyed issuer, after a first login; the memberships are those of the database. */
async function enter(sub: string, ...roles: readonly (readonly [number | null, string])[]): Promise<number> {
  const { user } = await fixture.identityOf(await as({ sub }))
  for (const [organization, role] of roles)
    await database.query('insert into role_assignments (user_id, organization_id, role) values ($1, $2, $3)', [
      user.id,
      organization,
      role,
    ])
  return user.id
}

const claiming = (sub: string, ...groups: readonly string[]): Promise<Record<string, string>> => as({ sub, groups })

const untilMember = (headers: Record<string, string>, organization: number): Promise<void> =>
  until(
    async () =>
      (await fixture.call({ path: '/public/x', headers: { ...headers, ...at(organization) } })).status === 200,
    'a member',
  )

await enter('two-sources', [acme, 'org-admin'], [organizations.globex.id, 'org-client'])
const twoSources = await claiming('two-sources', '/umbrella/org-owner', '/hooli/org-client')
await untilMember(twoSources, acme)

type Check = (t: Test) => Promise<unknown>

const tokensPath = (organization: number, user: number): string => `/organizations/${organization}/users/${user}/tokens`

/** One check for each line in docs/guides/claims.md. */
const checks: Readonly<Record<string, Check>> = {
  'The first login creates the user': async (t) => {
    const headers = await claiming('new', '/umbrella/org-client')
    const { sub, user, organization } = await fixture.identityOf(headers)
    t.match(organization, { id: umbrella, role: 'org-client' })
    t.equal(sub, String(user.id))
    const { rows } = await database.query('select user_id from user_identities where subject = $1', ['new'])
    t.same(rows, [{ user_id: user.id }])
  },
  'A user acts in organizations of both sources': async (t) => {
    t.match(await organizationOf({ ...twoSources, ...at(umbrella) }), {
      id: umbrella,
      slug: 'umbrella',
      role: 'org-owner',
    })
    t.match(await organizationOf({ ...twoSources, ...at(acme) }), { id: acme, slug: 'acme', role: 'org-admin' })
    await allowed(t, { path: '/admin/x', headers: { ...twoSources, ...at(umbrella) } })
    await refused(t, { path: '/admin/x', headers: { ...twoSources, ...at(acme) } }, 403, 'role_insufficient')
  },
  '`x-organization-id` of an organization without the caller is 401': async (t) => {
    const member = await claiming('two-sources', '/umbrella/org-member')
    await refused(t, { path: '/public/x', headers: { ...member, ...at(hooli) } }, 401, 'not_a_member')
    await refused(t, { path: '/public/x', headers: { ...oauth(users.owner), ...at(umbrella) } }, 401, 'not_a_member')
  },
  'A claim makes no member of an organization of the database': async (t) => {
    const { initech } = organizations
    for (const group of ['/initech/org-owner', `/${initech.id}/org-owner`]) {
      const headers = { ...(await claiming('two-sources', group)), ...at(initech.id) }
      await refused(t, { path: '/public/x', headers }, 401, 'not_a_member')
    }
    const higher = await claiming('two-sources', '/acme/org-owner')
    t.match(await organizationOf({ ...higher, ...at(acme) }), { role: 'org-admin' })
  },
  'A claim gives no platform role': async (t) => {
    const settings = { database: { url: world.databaseUrl, ...world.patience }, directory: { kind: 'both' } }
    for (const kind of [{ platformRole: 'admin' }, { userType: 'client-managed' }]) {
      const rule = { claim: '/roles', matches: 'x', ...kind }
      const issuers = [{ issuer: issuer.issuer, audience: 'a', directoryRules: [rule] }]
      const config = writeConfiguration(t, { settings: { ...settings, issuers } })
      t.throws(() => checkIssuers(loadConfiguration(config, {})), { message: /is read from the database where/ })
    }
    await enter('bypassing', [null, 'admin'])
    await until(async () => {
      const headers = { ...(await claiming('bypassing', '/hooli/org-client')), ...at(hooli) }
      return (await fixture.call({ path: '/admin/x', headers })).status === 200
    }, 'a bypass scope of the database holds in a declared organization')
  },
  'Then the stored current organization counts': async (t) => {
    const { globex } = organizations
    await allowed(t, { path: `/organizations/${globex.id}/switch`, method: 'POST', headers: twoSources })
    t.match(await organizationOf(twoSources), { id: globex.id })
    await allowed(t, { path: `/organizations/${acme}/switch`, method: 'POST', headers: twoSources })
  },
  'Then the oldest organization counts': async (t) => {
    t.match(await organizationOf(twoSources), { id: acme })
    t.match(await organizationOf(await claiming('nowhere', '/hooli/org-client', '/umbrella/org-client')), {
      id: umbrella,
    })
    t.equal(await organizationOf(await claiming('nowhere')), null)
  },
  'An API token authenticates its service account': async (t) => {
    const { robot } = serviceAccounts
    t.match(await organizationOf(bearer(robot.apiKey)), { id: acme })
    await refused(t, { path: '/public/x', headers: { ...bearer(robot.apiKey), ...at(umbrella) } }, 401, 'not_a_member')
  },
  '`GET /users/me` shows the user': async (t) => {
    const { data } = (await allowed(t, { path: '/users/me', headers: { ...twoSources, ...at(umbrella) } })).json()
    t.strictSame(
      data.roles.map(({ organizationId, slug }: Record<string, unknown>) => [organizationId, slug]),
      [
        [acme, 'org-admin'],
        [organizations.globex.id, 'org-client'],
        [umbrella, 'org-owner'],
        [hooli, 'org-client'],
      ],
    )
    t.equal(new Set(data.roles.map(({ id }: { id: number }) => id)).size, 4, 'each role has an id of its own')
    t.match(data, {
      currentOrganization: { id: umbrella, slug: 'umbrella', name: 'umbrella', accountType: 'enterprise' },
      ownsCurrentOrganization: true,
      organizationUserPermission: 'own',
    })
    t.match(data.currentOrganization, { memberCount: null, createdAt: null, updatedAt: null, description: null })
  },
  '`POST /organizations/{id}/switch` stores the choice': (t) =>
    refused(
      t,
      { path: `/organizations/${umbrella}/switch`, method: 'POST', headers: twoSources },
      404,
      'not_available',
    ),
  'Service accounts get API tokens': async (t) => {
    const path = tokensPath(umbrella, serviceAccounts.robot.id)
    const body = JSON.stringify({ scope: 'api-key' })
    const headers = { ...twoSources, 'content-type': 'application/json' }
    await refused(t, { path, method: 'POST', headers, body }, 404, 'not_available')
    await refused(t, { path, headers }, 404, 'not_available')
    await refused(t, { path: `${path}/1`, method: 'DELETE', headers }, 404, 'not_available')
    // No enterprise: another kind of account would not help.
    const ofTeam = { ...(await claiming('two-sources', '/hooli/org-owner')), 'content-type': 'application/json' }
    const { robot } = serviceAccounts
    await refused(t, { path: tokensPath(hooli, robot.id), method: 'POST', headers: ofTeam, body }, 404, 'not_available')
    const stored = await fixture.call({
      path: tokensPath(acme, serviceAccounts.robot.id),
      method: 'POST',
      headers,
      body,
    })
    t.equal(stored.status, 201, stored.text)
  },
  'AuthZEN answers about members of an organization': async (t) => {
    const { secret, hash } = makeSecret(randomInt)
    const { rows } = await database.query(
      `insert into auth_access_tokens (tokenable_id, type, hash, abilities)
        values ($1, 'auth_token', $2, '["decisions:evaluate"]') returning id`,
      [serviceAccounts.robotAdmin.id, hash],
    )
    const ask = (organization: number) =>
      call(fixture.gateway.decision, {
        path: '/access/v1/evaluation',
        method: 'POST',
        headers: {
          ...bearer(formatToken(rows[0].id, secret)),
          ...at(organization),
          'content-type': 'application/json',
        },
        body: JSON.stringify({
          subject: { type: 'user', id: String(users.owner.id) },
          action: { name: 'GET' },
          resource: { type: 'path', id: '/datasets' },
        }),
      })
    t.equal((await ask(umbrella)).status, 401)
    t.match((await ask(acme)).json(), { decision: true })
  },
  'Agents are read from the directory': async (t) => {
    const ask = async (agent: number, organization: number): Promise<number> => {
      const path = `/agent/${agent}/responses`
      const open = await readAnswer(fixture.gateway.public + path, { ...twoSources, ...at(organization) }, '{}')
      open.leave()
      return open.status
    }
    const { acme: own, public: common } = world.agents
    t.equal(await ask(own, acme), 200)
    t.equal(await ask(own, umbrella), 404)
    t.equal(await ask(common, umbrella), 200)
  },
  'The identity header is signed and names caller, organization and abilities': async (t) => {
    const claims = await fixture.identityOf({
      ...(await claiming('two-sources', '/umbrella/org-client')),
      ...at(umbrella),
    })
    t.match(claims, {
      sub: String(claims.user.id),
      user: { type: 'human' },
      organization: { id: umbrella, slug: 'umbrella', role: 'org-client' },
      roles: ['org-client'],
      abilities: ['agents:execute', 'workflows:execute'],
    })
  },
  'A change of the policy ends what it no longer permits': async (t) => {
    const ended = await readAnswer(`${fixture.gateway.public}/model/ended`, { ...twoSources, ...at(umbrella) })
    const kept = await readAnswer(`${fixture.gateway.public}/model/kept`, { ...twoSources, ...at(hooli) })
    await until(async () => kept.text() !== '' && ended.text() !== '', 'both streams')
    fixture.writeOrganizations(declaredOf(issuer.issuer).slice(1))
    t.match((await ended.whole()).toString(), /"x_service_error_code":"access_revoked"/)
    t.notOk(kept.hasEnded())
    kept.leave()
    fixture.writeOrganizations(declaredOf(issuer.issuer))
    await untilMember(twoSources, umbrella)
  },
  'Without the database a request is 503': async (t) => {
    const url = new URL(world.databaseUrl)
    const proxy = await startTcpProxy(t, { port: Number(url.port) })
    url.port = String(proxy.port)
    const cut = await startJoinedFixture(t, world, {
      database: { url: url.href, ...patience },
    })
    const headers = await cut.as({ groups: ['/umbrella/org-owner'] })
    await allowed(t, { path: '/public/x', headers }, cut)
    proxy.refuse()
    proxy.cut()
    await until(
      async () => (await cut.call({ path: '/public/x', headers })).status === 503,
      'no answer from held facts',
    )
    await refused(t, { path: '/public/x', headers }, 503, 'directory_unavailable', cut)
  },
}

const page = readFileSync(new URL('../../docs/guides/claims.md', import.meta.url), 'utf8')
const [, table = ''] = page.split('| Rule of the specification | Holds | With both |')
const rows = [...(table.split('\n\n')[0] ?? '').matchAll(/^\| (.+?) \| (yes|no) \|/gm)].map(
  ([, rule = '', holds = '']) => ({ rule, holds }),
)

t.test('each rule of the guide holds, or does what the guide says, with both sources', async (t) => {
  t.strictSame(rows.map(({ rule }) => rule).sort(), Object.keys(checks).sort(), 'a check for each line')
  for (const { rule, holds } of rows) await t.test(`${holds}: ${rule}`, async (t) => checks[rule]?.(t))
})

t.test('an organization of the database with a declared id or slug counts as absent', async (t) => {
  const { robot } = serviceAccounts
  const owner = await enter('owner-of-equals')
  for (const [id, slug] of [
    [umbrella, 'equal-id'],
    [70, 'hooli'],
    [71, 'Hóoli'],
  ] as const) {
    await database.query(`insert into organizations (id, name, slug, account_type) values ($1, $2, $2, 'enterprise')`, [
      id,
      slug,
    ])
    for (const user of [owner, robot.id])
      await database.query(
        `insert into role_assignments (user_id, organization_id, role) values ($1, $2, 'org-owner')`,
        [user, id],
      )
  }
  await database.query('update users set current_organization_id = $1 where id = $2', [umbrella, owner])
  await database.query("update clusters set organization_id = $1 where slug = 'globex'", [umbrella])
  await database.query('insert into role_assignments (user_id, organization_id, role) values ($1, $2, $3)', [
    owner,
    acme,
    'org-client',
  ])
  const plain = await claiming('owner-of-equals')
  await untilMember(plain, acme)
  t.match(await organizationOf(plain), { id: acme }, 'the choice too')
  for (const [headers, organization] of [
    [plain, umbrella],
    [plain, 70],
    [plain, 71],
    [bearer(robot.apiKey), umbrella],
    [bearer(robot.apiKey), 70],
  ] as const)
    await refused(t, { path: '/public/x', headers: { ...headers, ...at(organization) } }, 401, 'not_a_member')
  const member = { ...(await claiming('owner-of-equals', '/umbrella/org-member')), ...at(umbrella) }
  t.match(await organizationOf(member), { slug: 'umbrella', role: 'org-member' })
  const { data } = (await allowed(t, { path: '/users/me', headers: member })).json()
  t.equal(data.currentOrganization.name, 'umbrella')
  const cluster = world.clusters.globex
  t.equal((await fixture.call({ path: `/clusters/${cluster}/proxy/x`, headers: member })).status, 404)

  await until(async () => {
    const { checks, causes } = (await call(fixture.gateway.admin, { path: '/readyz' })).json()
    return (
      checks.organizations === 'limited' &&
      /organization 70 \(hooli\), organization 1007 \(equal-id\)/.test(causes.organizations)
    )
  }, 'readiness names both')
  const config = writeConfiguration(t, {
    world,
    settings: {
      directory: { kind: 'both' },
      policies: { directory: fixture.policies },
      issuers: [
        {
          issuer: issuer.issuer,
          audience: 'a',
          jwksUri: `${issuer.issuer}/keys`,
          directoryRules: [{ claim: '/groups', matches: '/{organization}/{role}' }],
        },
      ],
    },
  })
  const checked = await runCommand(['directory', 'check', '--json', '--config', config])
  t.equal(checked.code, 1)
  t.match(JSON.parse(checked.stdout).problems, [
    { severity: 'error', code: 'declared-too', message: /organization 70 \(hooli\)/ },
    { severity: 'error', code: 'declared-too', message: /organization 71 \(Hóoli\)/ },
    { severity: 'error', code: 'declared-too', message: /organization 1007 \(equal-id\)/ },
  ])
  const jwt = await issuer.sign({ sub: 'owner-of-equals', groups: ['/umbrella/org-member'], aud: 'a' })
  const inspected = await runCommand(['token', 'inspect', '--json', '--config', config], { input: jwt })
  t.match(JSON.parse(inspected.stdout), { facts: { memberships: ['org-client in 1', 'org-member in 1007'] } })
})
