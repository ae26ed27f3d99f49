import { randomInt } from 'node:crypto'
import pg from 'pg'
import t from 'tap'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

// The stored organization decides for every credential of an account: one that may only read must not choose where another
// one, which may write, acts.

const world = await startTestWorld(t)
const { acme, initech } = world.organizations
const { robot } = world.serviceAccounts
const { admin } = world.users

const database = new pg.Pool({ connectionString: world.databaseUrl, max: 2 })
t.teardown(() => database.end())

const switchTo = (organizationId: number, headers: Record<string, string>) =>
  world.call({ method: 'POST', path: `/organizations/${organizationId}/switch`, headers })

async function stored(userId: number): Promise<number | null> {
  const { rows } = await database.query('select current_organization_id as id from users where id = $1', [userId])
  return rows[0].id
}

async function createToken(userId: number, abilities: readonly string[]): Promise<string> {
  const { secret, hash } = makeSecret(randomInt)
  const { rows } = await database.query<{ id: number }>(
    `insert into auth_access_tokens (tokenable_id, type, hash, abilities) values ($1, 'auth_token', $2, $3) returning id`,
    [userId, hash, JSON.stringify(abilities)],
  )
  return formatToken(rows[0]?.id ?? 0, secret)
}

await database.query("insert into role_assignments (user_id, organization_id, role) values ($1, $2, 'org-client')", [
  robot.id,
  initech.id,
])
await database.query('update users set current_organization_id = $2 where id = $1', [robot.id, acme.id])

t.test('a token that may write nothing does not choose the organization of its account', async (t) => {
  for (const [name, token] of [
    ['an api-key', robot.apiKey],
    ['a token without abilities', await createToken(robot.id, [])],
    ['one that reads and runs', await createToken(robot.id, ['datasets:read', 'agents:execute', 'tokens:manage'])],
    ['one whose role grants none of what it may write', await createToken(robot.id, ['datasets:write'])],
  ] as const)
    for (const organization of [acme, initech]) {
      const answer = await switchTo(organization.id, bearer(token))
      t.match(answer.json(), { error: { status: 403, code: 'ability_missing', check: 'ability' } }, name)
    }
  t.equal((await switchTo(initech.id, bearer(robot.apiSecret))).status, 403, 'org-client writes nothing there')
  t.equal(await stored(robot.id), acme.id)
  const trail = await database.query("select from audit_events where action = 'organization.switched'")
  t.equal(trail.rowCount, 0)
})

t.test('a token that may write chooses the organization of its account, and so does a session', async (t) => {
  await database.query('update users set current_organization_id = null where id = $1', [robot.id])
  t.equal((await switchTo(acme.id, bearer(robot.apiSecret))).status, 200)
  t.equal(await stored(robot.id), acme.id)
  t.equal((await switchTo(acme.id, bearer(await createToken(robot.id, ['*'])))).status, 200)
  t.equal((await switchTo(acme.id, oauth(admin))).status, 200)
})

t.test('a caller who is not a member does not learn what its token lacks', async (t) => {
  const answer = await switchTo(2_147_483_647, bearer(robot.apiKey))
  t.match(answer.json(), { error: { status: 403, code: 'organization_forbidden' } })
})

t.test('every owned endpoint that changes something refuses a token that only reads', async (t) => {
  const { robotAdmin } = world.serviceAccounts
  for (const [method, path] of [
    ['POST', `/organizations/${acme.id}/switch`],
    ['POST', `/organizations/${acme.id}/users/${robot.id}/tokens`],
    ['DELETE', `/organizations/${acme.id}/users/${robot.id}/tokens/1`],
  ] as const)
    t.equal((await world.call({ method, path, headers: bearer(robotAdmin.apiKey), body: '{}' })).status, 403, path)
})
