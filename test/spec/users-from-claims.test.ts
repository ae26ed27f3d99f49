import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { runCheckDirectory } from '../../gateway/tools/cli/check-directory.ts'
import { withDirectory } from '../../gateway/tools/cli/directory.ts'
import { runMigrate } from '../../gateway/tools/cli/migrate.ts'
import { makeAuditFolder, readAudit } from '../support/audit.ts'
import { guessToken } from '../support/cause-people.ts'
import { claimsSettings, organizationsOf, startClaimsFixture } from '../support/claims-gateway.ts'
import { type Answer, type Call, call } from '../support/client.ts'
import { runCommand } from '../support/command-line.ts'
import { until, writeConfiguration } from '../support/gateway.ts'
import { readAnswer } from '../support/streams.ts'
import { bearer } from '../support/world.ts'

const scopes = { read: ['datasets:read'], all: ['*'] }
const fixture = await startClaimsFixture(t, { settings: { timeouts: { keepAliveMs: 50 } } })
const scoped = await startClaimsFixture(t, { issuerSettings: { scopes } })
const { as, issuer } = fixture

const [acme, globex] = [7, 8]
const member = await as({ groups: ['/acme/org-member'] })
const both = await as({ groups: ['/globex/org-owner', '/acme/org-member'] })
const nobody = await as({})
const admin = await as({ groups: ['/acme/org-admin'] })
const platformAdmin = await as({ groups: ['/acme/org-client'], roles: ['platform-admin'] })

const at = (organization: number | string): Record<string, string> => ({ 'x-organization-id': String(organization) })

/** Refused with this status and code, before an upstream was asked. */
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

const pinned = async (headers: Record<string, string>): Promise<number | null> =>
  (await fixture.identityOf(headers)).organization?.id ?? null

const notAvailable = (t: Test, path: string, method = 'GET', headers = admin): Promise<Answer> =>
  refused(t, { path, method, headers }, 404, 'not_available')

type Check = (t: Test) => Promise<unknown>

/** One check for each line in docs/guides/claims.md. */
const checks: Readonly<Record<string, Check>> = {
  'A JWT is verified against the keys of its issuer': async (t) => {
    await allowed(t, { path: '/datasets', headers: member })
    const jwt = await issuer.sign({ groups: ['/acme/org-member'] })
    const forged = { 'x-oauth-access-token': `${jwt.slice(0, -8)}AAAAAAAA` }
    await refused(t, { path: '/datasets', headers: forged }, 401, 'unauthenticated')
  },
  'The first login creates the user': async (t) => {
    const { sub, user } = await fixture.identityOf(await as({ sub: 'new' }))
    t.equal(sub, `${issuer.issuer}|new`)
    t.notOk('id' in user)
  },
  'An API token in `x-oauth-access-token` is 401': (t) =>
    refused(t, { path: '/datasets', headers: { 'x-oauth-access-token': guessToken(1) } }, 401, 'unauthenticated'),
  'A JWT as Bearer is 401': (t) =>
    refused(t, { path: '/datasets', headers: bearer(member['x-oauth-access-token'] ?? '') }, 401, 'unauthenticated'),
  'A missing, invalid or expired credential is 401': async (t) => {
    await refused(t, { path: '/datasets' }, 401, 'unauthenticated')
    const expired = await as({ exp: Math.floor(Date.now() / 1_000) - 120 })
    await refused(t, { path: '/public/x', headers: expired }, 401, 'unauthenticated')
  },
  'An API token authenticates its service account': (t) =>
    refused(t, { path: '/public/x', headers: bearer(guessToken(1)) }, 401, 'unauthenticated'),
  '`x-organization-id` of an organization without the caller is 401': async (t) => {
    const request = { path: '/public/x', headers: { ...member, ...at(globex) } }
    const { message } = (await refused(t, request, 401, 'not_a_member')).json()
    t.equal(message, 'You are not a member of this organization.')
    await refused(t, { path: '/public/x', headers: { ...member, ...at(999) } }, 401, 'not_a_member')
  },
  '`x-organization-id` that is not a positive integer is 400': async (t) => {
    for (const value of ['0', '-1', '01', 'acme', '2147483648'])
      await refused(t, { path: '/public/x', headers: { ...member, ...at(value) } }, 400, 'invalid_organization_id')
  },
  'The cookie `current-org-id` counts next, with the same checks': async (t) => {
    t.equal(await pinned({ ...both, cookie: `current-org-id=${globex}` }), globex)
    t.equal(await pinned({ ...both, cookie: `current-org-id=${globex}`, ...at(acme) }), acme)
    const foreign = { ...member, cookie: `current-org-id=${globex}` }
    await refused(t, { path: '/public/x', headers: foreign }, 401, 'not_a_member')
  },
  'Then the stored current organization counts': async (t) => {
    await notAvailable(t, `/organizations/${globex}/switch`, 'POST', both)
    t.equal(await pinned(both), acme)
  },
  'Then the oldest organization counts': async (t) => t.equal(await pinned(both), acme),
  'A caller without an organization has none in force': async (t) => {
    t.equal(await pinned(nobody), null)
    await refused(t, { path: '/datasets', headers: nobody }, 403, 'role_insufficient')
  },
  'A higher role has the rights of a lower one': async (t) => {
    await allowed(t, { path: '/datasets', headers: admin })
    await allowed(t, { path: '/admin/x', headers: { ...both, ...at(globex) } })
    await refused(t, { path: '/admin/x', headers: admin }, 403, 'role_insufficient')
  },
  'Role and ability are checked before an upstream is asked': (t) =>
    refused(t, { path: '/datasets', method: 'POST', headers: member }, 403, 'role_insufficient'),
  'Abilities are those of credential and role together': async (t) => {
    const groups = ['/acme/org-admin']
    const reading = await scoped.as({ groups, scope: 'read' })
    await allowed(t, { path: '/datasets', headers: reading }, scoped)
    await refused(t, { path: '/datasets', method: 'POST', headers: reading }, 403, 'ability_missing', scoped)
    await allowed(t, { path: '/datasets', method: 'POST', headers: await scoped.as({ groups, scope: 'all' }) }, scoped)
  },
  'A bypass scope stands for the highest role, but for no membership': async (t) => {
    await allowed(t, { path: '/admin/x', headers: platformAdmin })
    await refused(t, { path: '/public/x', headers: { ...platformAdmin, ...at(globex) } }, 401, 'not_a_member')
    const outside = await as({ roles: ['platform-admin'] })
    await refused(t, { path: '/admin/x', headers: outside }, 403, 'role_insufficient')
  },
  '`GET /users/me` shows the user': async (t) => {
    await notAvailable(t, '/users/me')
    await notAvailable(t, '/users/me', 'GET', nobody)
  },
  '`GET /users/me/abilities` shows the effective abilities': async (t) => {
    const { data } = (await allowed(t, { path: '/users/me/abilities', headers: platformAdmin })).json()
    t.strictSame(data, { abilities: ['*'], bypass: { active: true, scopes: ['admin'] } })
  },
  '`POST /organizations/{id}/switch` stores the choice': (t) =>
    notAvailable(t, `/organizations/${acme}/switch`, 'POST', admin),
  'Service accounts get API tokens': async (t) => {
    const path = `/organizations/${acme}/users/1/tokens`
    await notAvailable(t, path, 'POST')
    await notAvailable(t, path)
    await notAvailable(t, `${path}/1`, 'DELETE')
  },
  'Agents are read from the directory': async (t) => {
    const answer = await fixture.call({ path: '/agent/1/responses', method: 'POST', headers: member })
    t.match(answer.json(), { error: { code: 'not_available' } })
    t.equal(answer.status, 404)
  },
  'Clusters are reached by the cluster proxy': (t) => notAvailable(t, '/clusters/1/proxy/x'),
  'The identity header is signed and names caller, organization and abilities': async (t) => {
    const claims = await fixture.identityOf(await as({ sub: 's', email: 'a@b.example', groups: ['/acme/org-client'] }))
    t.match(claims, {
      sub: `${issuer.issuer}|s`,
      user: { type: 'human', email: 'a@b.example', emailVerified: false },
      organization: { id: acme, slug: 'acme', role: 'org-client' },
      roles: ['org-client'],
      abilities: ['agents:execute', 'workflows:execute'],
      credential: { kind: 'oauth' },
    })
    t.equal(claims.exp - claims.iat, 60)
  },
  'A user is `human` or `client-managed`': async (t) => {
    const typeOf = async (claims: object): Promise<string> =>
      (await fixture.identityOf(await as({ ...claims }))).user.type
    t.equal(await typeOf({}), 'human')
    t.equal(await typeOf({ azp: 'importer' }), 'client-managed')
    t.equal(await typeOf({ azp: 'Importer', user_type: 'client-managed', groups: ['/acme/client-managed'] }), 'human')
  },
  'Each surface has its shape of errors': async (t) => {
    const ask = async (path: string, method = 'GET') => (await fixture.call({ path, method, headers: nobody })).json()
    t.match(await ask('/datasets'), { success: false, error: { status: 403 } })
    t.match(await ask('/data/x'), { detail: String })
    t.match(await ask('/model/x', 'POST'), { error: { type: 'invalid_request_error' } })
    t.match(await ask('/graphql', 'POST'), { data: null, errors: [{ extensions: { code: 'FORBIDDEN' } }] })
  },
  'A 429 of an upstream passes with `Retry-After`': async (t) => {
    const { status, headers } = await fixture.call({ path: '/public/limited', headers: member })
    t.equal(status, 429)
    t.equal(headers['retry-after'], '7')
  },
  'A stream that fails before its first event is an HTTP error': async (t) => {
    const answer = await fixture.call({ path: '/model/leaves', headers: member })
    t.equal(answer.status, 503)
    t.match(answer.json(), { error: { message: String, type: 'server_error', code: 'upstream_unavailable' } })
  },
  'A quiet stream carries `:keep-alive` lines': async (t) => {
    const open = await readAnswer(`${fixture.gateway.public}/model/quiet`, member)
    await until(async () => open.text().includes(':keep-alive\n\n:keep-alive\n\n'), 'two of them')
    t.notOk(open.hasEnded())
    open.leave()
  },
  'A stream that fails ends by `response.failed`': async (t) => {
    const { whole } = await readAnswer(`${fixture.gateway.public}/model/breaks`, member)
    t.match((await whole()).toString(), /event: response.failed\ndata: .*"worker_disconnected"/)
  },
  'A change of the policy ends what it no longer permits': async (t) => {
    const kept = await readAnswer(`${fixture.gateway.public}/model/kept`, { ...both, ...at(globex) })
    const ended = await readAnswer(`${fixture.gateway.public}/model/ended`, { ...both, ...at(acme) })
    await until(async () => kept.text() !== '' && ended.text() !== '', 'both streams')
    fixture.writeOrganizations(organizationsOf(issuer.issuer).slice(1))
    t.match((await ended.whole()).toString(), /"x_service_error_code":"access_revoked"/)
    await refused(t, { path: '/datasets', headers: member }, 403, 'role_insufficient')
    t.notOk(kept.hasEnded())
    kept.leave()
    fixture.writeOrganizations(organizationsOf(issuer.issuer))
    await until(async () => (await fixture.call({ path: '/datasets', headers: member })).status === 200, 'acme again')
  },
}

const page = readFileSync(new URL('../../docs/guides/claims.md', import.meta.url), 'utf8')
const [, table = ''] = page.split('| Rule of the specification | Holds | With claims |')
const rows = [...(table.split('\n\n')[0] ?? '').matchAll(/^\| (.+?) \| (yes|no) \|/gm)].map(
  ([, rule = '', holds = '']) => ({ rule, holds }),
)

t.test('each rule of the guide holds, or does what the guide says, without a database', async (t) => {
  t.strictSame(rows.map(({ rule }) => rule).sort(), Object.keys(checks).sort(), 'a check for each line')
  for (const { rule, holds } of rows) await t.test(`${holds}: ${rule}`, async (t) => checks[rule]?.(t))
})

t.test('a client named like a user is not that user', async (t) => {
  const groups = ['/acme/org-client']
  const subjectOf = async (claims: Readonly<Record<string, unknown>>): Promise<string> =>
    (await fixture.identityOf(await as({ sub: 'ada', groups, ...claims }))).sub
  t.equal(await subjectOf({ azp: 'portal' }), `${issuer.issuer}|ada`)
  for (const name of ['azp', 'client_id', 'cid', 'appid'])
    t.equal(await subjectOf({ [name]: 'ada' }), `${issuer.issuer}#client|ada`, name)
})

t.test('an organization belongs to one issuer and value', async (t) => {
  const foreign = await as({ groups: ['/initech/org-owner', '/8/org-owner', '/Acme/org-owner', '/acme /org-owner'] })
  t.equal((await fixture.identityOf(foreign)).organization, null)
  fixture.writeOrganizations([
    ...organizationsOf(issuer.issuer),
    { id: 9, slug: 'initech', claims: [{ issuer: 'https://another.example', value: 'initech' }] },
    { id: 10, slug: 'hooli', claims: [{ issuer: issuer.issuer, value: '8' }] },
  ])
  await until(
    async () => (await fixture.identityOf(foreign)).organization?.id === 10,
    'the value, not the id or the slug',
  )
  await refused(t, { path: '/public/x', headers: { ...foreign, ...at(9) } }, 401, 'not_a_member')
  fixture.writeOrganizations(organizationsOf(issuer.issuer))
})

t.test('a captured role that no policy declares gives no membership', async (t) => {
  for (const role of ['admin', 'owner', 'ORG-OWNER', 'client-managed', 'api-secret', '__proto__', 'constructor']) {
    const headers = await as({ groups: [`/acme/${role}`] })
    t.equal((await fixture.identityOf(headers)).organization, null, role)
    await refused(t, { path: '/public/x', headers: { ...headers, ...at(acme) } }, 401, 'not_a_member')
  }
})

t.test('the highest of several roles in one organization counts', async (t) => {
  const { organization, roles } = await fixture.identityOf(
    await as({ groups: ['/acme/org-client', '/acme/org-owner', '/acme/org-member'] }),
  )
  t.equal(organization.role, 'org-owner')
  t.strictSame(roles, ['org-owner'])
})

t.test('two JWTs of one subject keep their own rights', async (t) => {
  const strong = await as({ sub: 'two', groups: ['/acme/org-owner'] })
  const weak = await as({ sub: 'two', groups: ['/globex/org-member'] })
  const open = await readAnswer(`${fixture.gateway.public}/model/strong`, strong)
  const other = await readAnswer(`${fixture.gateway.public}/model/weak`, weak)
  await until(async () => open.text() !== '' && other.text() !== '', 'both streams')
  // Both are judged again, in one batch.
  fixture.writeOrganizations(organizationsOf(issuer.issuer).slice(1))
  t.match((await open.whole()).toString(), /access_revoked/)
  t.notOk(other.hasEnded())
  other.leave()
  fixture.writeOrganizations(organizationsOf(issuer.issuer))
  await until(async () => (await fixture.call({ path: '/admin/x', headers: strong })).status === 200, 'acme again')
  await refused(t, { path: '/admin/x', headers: weak }, 403, 'role_insufficient')
})

t.test('readiness, metrics and console do not wait for a database', async (t) => {
  const ready = await call(fixture.gateway.admin, { path: '/readyz' })
  t.equal(ready.status, 200, ready.text)
  t.notMatch(ready.text, /database|schema|writes/)
  t.equal((await call(fixture.gateway.admin, { path: '/' })).status, 200)
  t.equal((await call(fixture.gateway.admin, { path: '/metrics' })).status, 200)
})

t.test('a budget of requests belongs to a user of claims alone', async (t) => {
  const limited = await startClaimsFixture(t, { rateLimits: { own: { requests: 1, seconds: 3_600, by: 'principal' } } })
  const ask = async (sub: string) =>
    (await limited.call({ path: '/limited', headers: await limited.as({ sub }) })).status
  t.strictSame([await ask('one'), await ask('one'), await ask('two')], [200, 429, 200])
})

t.test('log and audit name a user of claims by issuer and subject', async (t) => {
  const file = join(makeAuditFolder(t), 'audit.jsonl')
  const audited = await startClaimsFixture(t, { settings: { audit: { sink: file } } })
  await audited.identityOf(await audited.as({ sub: 'audited' }))
  await until(async () => readAudit(file).length > 0, 'the line')
  t.match(readAudit(file)[0], { subject: { id: `${audited.issuer.issuer}|audited`, kind: 'human' } })
})

t.test('commands that need a database say so, and a token is inspected without one', async (t) => {
  const config = writeConfiguration(t, { settings: { ...claimsSettings(issuer.issuer) } })
  for (const run of [
    () => withDirectory(config, async () => undefined),
    () => runMigrate({ config }),
    () => runCheckDirectory({ config }),
  ])
    await t.rejects(run(), { name: 'UsageError', message: /^this needs a database, and directory\.kind is claims/ })
  const jwt = await issuer.sign({ groups: ['/acme/org-admin'] })
  const { stdout } = await runCommand(['token', 'inspect', '--config', config, '--json'], { input: jwt })
  t.match(JSON.parse(stdout), { cause: null, facts: { user: `${issuer.issuer}|keyed`, memberships: [] } })
})
