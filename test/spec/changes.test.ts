import { once } from 'node:events'
import pg from 'pg'
import t from 'tap'
import type { Answer, Call } from '../support/client.ts'
import { until } from '../support/gateway.ts'
import { type Account, populate } from '../support/population.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { acme, globex, initech } = world.organizations

const { writer, insert, assign, addAccount } = await populate(t, world)

/** The bound is 1 s; the rest is for a busy machine. */
const visibleWithinMs = 2_000

type Judge = (answer: Answer) => boolean

const answers =
  (status: number): Judge =>
  (answer) =>
    answer.status === status

/** The request is in every cache before the change, and judged anew after it. */
async function expectChange(request: Call, before: Judge, sql: string, values: readonly unknown[], after: Judge) {
  // Notifications of an earlier test may still arrive.
  await until(async () => before(await world.call(request)), `the state before: ${sql}`)
  for (let warm = 0; warm < 3; warm += 1) await world.call(request)
  await writer.query(sql, [...values])
  await until(async () => after(await world.call(request)), `the effect of: ${sql}`, visibleWithinMs)
  for (let again = 0; again < 10; again += 1)
    if (!after(await world.call(request))) throw new Error(`taken back: ${sql}`)
}

/** A human with a role in an organization, and the headers of its requests. */
async function addHuman(name: string, organization: number, role: string) {
  const jwt = await world.mint({ sub: name, email: `${name}@demo.example` })
  const headers = oauth({ jwt })
  const me = await world.call({ path: '/users/me', headers })
  const id = Number(me.json().data.id)
  await assign(id, organization, role)
  return { id, headers }
}

const datasets = (headers: Record<string, string>): Call => ({ path: '/datasets', headers })

t.test('a deleted token is refused', async () => {
  const { tokenId, headers } = await addAccount('deleted')
  const sql = 'delete from auth_access_tokens where id = $1'
  await expectChange(datasets(headers), answers(200), sql, [tokenId], answers(401))
})

t.test('a token that expires earlier than it was to is refused', async () => {
  const { tokenId, headers } = await addAccount('expiring')
  const sql = "update auth_access_tokens set expires_at = now() - interval '1 second' where id = $1"
  await expectChange(datasets(headers), answers(200), sql, [tokenId], answers(401))
})

t.test('an ability that a token loses is lost', async () => {
  const { tokenId, headers } = await addAccount('weakened')
  const sql = `update auth_access_tokens set abilities = '["agents:execute"]' where id = $1`
  await expectChange(datasets(headers), answers(200), sql, [tokenId], answers(403))
})

t.test('a token that is given another secret is refused', async () => {
  const { tokenId, headers } = await addAccount('rehashed')
  const sql = "update auth_access_tokens set hash = encode(sha256('other'), 'hex') where id = $1"
  await expectChange(datasets(headers), answers(200), sql, [tokenId], answers(401))
})

t.test('a token that is put back is accepted', async () => {
  const { tokenId, headers, id } = await addAccount('restored')
  const { rows } = await writer.query<{ hash: string }>('delete from auth_access_tokens where id = $1 returning hash', [
    tokenId,
  ])
  const sql = `insert into auth_access_tokens (id, tokenable_id, type, hash, abilities)
    values ($1, $2, 'auth_token', $3, '["*"]')`
  await expectChange(datasets(headers), answers(401), sql, [tokenId, id, rows[0]?.hash], answers(200))
})

t.test('a service account that is deleted takes its tokens with it', async () => {
  const { id, headers } = await addAccount('dismissed')
  await expectChange(datasets(headers), answers(200), 'delete from users where id = $1', [id], answers(401))
})

t.test('a service account that becomes a human may use no token', async () => {
  const { id, headers } = await addAccount('humanized')
  const sql = "update users set user_type = 'human' where id = $1"
  await expectChange(datasets(headers), answers(200), sql, [id], answers(401))
})

t.test('a role that is lowered counts, by token and by session', async () => {
  const account = await addAccount('lowered-account')
  const human = await addHuman('lowered-human', acme.id, 'org-member')
  const sql = "update role_assignments set role = 'org-client' where user_id = $1"
  for (const { id, headers } of [account, human])
    await expectChange(datasets(headers), answers(200), sql, [id], answers(403))
})

t.test('a role that is raised counts', async () => {
  const { id, headers } = await addHuman('raised', acme.id, 'org-client')
  const sql = "update role_assignments set role = 'org-member' where user_id = $1"
  await expectChange(datasets(headers), answers(403), sql, [id], answers(200))
})

t.test('an ended membership no longer counts', async () => {
  const { id, headers } = await addHuman('leaving', acme.id, 'org-member')
  const request = datasets({ ...headers, 'x-organization-id': String(acme.id) })
  await expectChange(request, answers(200), 'delete from role_assignments where user_id = $1', [id], answers(401))
})

t.test('a membership that begins counts', async () => {
  const { id, headers } = await addHuman('joining', globex.id, 'org-member')
  const request = datasets({ ...headers, 'x-organization-id': String(acme.id) })
  const sql = "insert into role_assignments (user_id, organization_id, role) values ($1, $2, 'org-member')"
  await expectChange(request, answers(401), sql, [id, acme.id], answers(200))
})

t.test('a membership that moves to another organization leaves the first', async () => {
  const { id, headers } = await addHuman('moving', acme.id, 'org-member')
  const request = datasets({ ...headers, 'x-organization-id': String(acme.id) })
  const sql = 'update role_assignments set organization_id = $2 where user_id = $1'
  await expectChange(request, answers(200), sql, [id, initech.id], answers(401))
})

t.test('an identity that is given to another user speaks for that one', async () => {
  const { headers, id } = await addHuman('handed-over', acme.id, 'org-member')
  const other = await addHuman('taking-over', acme.id, 'org-member')
  await expectChange(
    { path: '/users/me', headers },
    (answer) => answer.json().data.id === id,
    'update user_identities set user_id = $2 where user_id = $1',
    [id, other.id],
    (answer) => answer.json().data.id === other.id,
  )
})

t.test('a user’s stored choice of organization counts', async () => {
  const { id, headers } = await addHuman('choosing', acme.id, 'org-member')
  await assign(id, globex.id, 'org-member')
  await expectChange(
    { path: '/users/me', headers },
    (answer) => answer.json().data.currentOrganization.slug === 'acme',
    'update users set current_organization_id = $2 where id = $1',
    [id, globex.id],
    (answer) => answer.json().data.currentOrganization.slug === 'globex',
  )
})

t.test('an organization’s new account type and number of members count', async (t) => {
  const organization = await insert("organizations (name, slug, account_type) values ('New', 'new', 'team')")
  const { headers, id } = await addHuman('of-new', organization, 'org-admin')
  const tokens: Call = { path: `/organizations/${organization}/users/${id}/tokens`, headers }
  const sql = "update organizations set account_type = 'enterprise' where id = $1"
  await expectChange(tokens, answers(403), sql, [organization], answers(422))
  await expectChange(
    { path: '/users/me', headers },
    (answer) => answer.json().data.currentOrganization.memberCount === '1',
    "insert into role_assignments (user_id, organization_id, role) values (1, $1, 'org-client')",
    [organization],
    (answer) => answer.json().data.currentOrganization.memberCount === '2',
  )
  await expectChange(
    { path: '/users/me', headers },
    (answer) => answer.json().data.currentOrganization.slug === 'new',
    "update organizations set slug = 'newer' where id = $1",
    [organization],
    (answer) => answer.json().data.currentOrganization.slug === 'newer',
  )
  t.pass()
})

t.test('a deleted organization has no members', async () => {
  const organization = await insert("organizations (name, slug) values ('Gone', 'gone')")
  const { headers } = await addHuman('of-gone', organization, 'org-member')
  const sql = 'delete from organizations where id = $1'
  await expectChange(datasets(headers), answers(200), sql, [organization], answers(403))
})

t.test('an agent that moves, turns private, or comes into being counts', async () => {
  const agent = await insert(`agents (organization_id, name, is_public) values (${initech.id}, 'wandering', true)`)
  const { headers } = await addAccount('agent-user')
  const request: Call = { method: 'POST', path: `/agent/${agent}/responses`, headers, body: '{}' }
  const sql = 'update agents set is_public = false where id = $1'
  await expectChange(request, answers(200), sql, [agent], answers(404))
  const move = 'update agents set organization_id = $2 where id = $1'
  await expectChange(request, answers(404), move, [agent, acme.id], answers(200))
  await expectChange(request, answers(200), 'delete from agents where id = $1', [agent], answers(404))
  const create = "insert into agents (id, organization_id, name) values ($1, $2, 'back')"
  await expectChange(request, answers(404), create, [agent, acme.id], answers(200))
})

t.test('a cluster that is suspended, resumed, deleted or moved is answered accordingly', async () => {
  const { healthy } = world.clusters
  const { headers } = await addAccount('cluster-user')
  const request: Call = { path: `/clusters/${healthy}/proxy/x`, headers }
  const set = 'update clusters set status = $2 where id = $1'
  await expectChange(request, answers(200), set, [healthy, 'suspended'], answers(403))
  await expectChange(request, answers(403), set, [healthy, 'deleting'], answers(503))
  await expectChange(request, answers(503), set, [healthy, 'active'], answers(200))
  const move = 'update clusters set organization_id = $2 where id = $1'
  await expectChange(request, answers(200), move, [healthy, globex.id], answers(404))
  await expectChange(request, answers(404), move, [healthy, acme.id], answers(200))
})

t.test('a heartbeat that is taken back, and one that comes after a silence, count', async () => {
  const { stale } = world.clusters
  const { headers } = await addAccount('heartbeat-user')
  const request: Call = { path: `/clusters/${stale}/proxy/x`, headers }
  const beat = 'update clusters set last_heartbeat_at = $2 where id = $1'
  await expectChange(request, answers(503), beat, [stale, new Date()], answers(200))
  await expectChange(request, answers(200), beat, [stale, new Date(Date.now() - 120_000)], answers(503))
  await expectChange(request, answers(503), beat, [stale, new Date()], answers(200))
  await expectChange(request, answers(200), beat, [stale, null], answers(503))
})

t.test('a bulk change reaches everything that is held', async () => {
  const accounts = [await addAccount('bulk-a'), await addAccount('bulk-b')]
  await writer.query(`
    insert into users (email, user_type) select 'bulk-' || n, 'client-managed' from generate_series(1, 300) n;
    insert into role_assignments (user_id, organization_id, role)
      select id, ${acme.id}, 'org-member' from users where email like 'bulk-%' on conflict do nothing`)
  for (const { headers } of accounts)
    await until(async () => (await world.call(datasets(headers))).status === 200, 'it')
  await writer.query(
    "update role_assignments set role = 'org-client' where user_id in (select id from users where email like 'bulk-%')",
  )
  for (const { headers } of accounts)
    await until(async () => (await world.call(datasets(headers))).status === 403, 'the bulk change', visibleWithinMs)
})

t.test('columns that change often and decide nothing send no message', async (t) => {
  const listener = new pg.Client({ connectionString: world.databaseUrl })
  await listener.connect()
  t.teardown(() => listener.end())
  const heard: string[] = []
  listener.on('notification', ({ payload = '' }) => heard.push(payload))
  await listener.query('listen sallyport_changes')
  await writer.query('update auth_access_tokens set last_used_at = now(), updated_at = now()')
  await writer.query(
    "update clusters set last_heartbeat_at = now() + interval '1 second' where last_heartbeat_at is not null",
  )
  await writer.query('update users set updated_at = now()')
  await writer.query("update users set first_name = 'Told' where id = 1")
  if (heard.length === 0) await once(listener, 'notification')
  t.same(heard, ['{"kind" : "user", "id" : 1}'])
})

/**
 * An account whose revocation sends no message, so that the entry stays held. After a stall of a second no entry is
 * held, so the test tries again.
 */
async function revokeUnheard(name: string): Promise<Account> {
  for (let attempt = 0; attempt < 10; attempt += 1) {
    const account = await addAccount(`${name}-${attempt}`)
    const use = async (): Promise<number> => (await world.call(datasets(account.headers))).status
    if ((await use()) !== 200) throw new Error(`${name} is refused from the start`)
    await writer.query('alter table auth_access_tokens disable trigger sallyport_delete')
    await writer.query('delete from auth_access_tokens where id = $1', [account.tokenId])
    await writer.query('alter table auth_access_tokens enable trigger sallyport_delete')
    if ((await use()) === 200) return account
  }
  throw new Error(`${name} was never held`)
}

t.test('an unknown message clears the caches', async () => {
  for (const text of ['', 'no JSON', '{"kind":"galaxy","id":1}', '{"kind":"user","id":"1"}', 'x'.repeat(7_000)]) {
    const { headers } = await revokeUnheard(`unheard-${text.length}`)
    await writer.query("select pg_notify('sallyport_changes', $1)", [text])
    await until(async () => (await world.call(datasets(headers))).status === 401, 'the refusal', visibleWithinMs)
  }
})
