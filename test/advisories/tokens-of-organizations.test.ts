import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import pg from 'pg'
import t from 'tap'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { adoptDatabase } from '../support/adonis/adopted.ts'
import { backendRows, backendTables } from '../support/adonis/tables.ts'
import { type Answer, call } from '../support/client.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { bearer, oauth, startTestDatabase, startTestWorld } from '../support/world.ts'

// An account may be a member of several organizations. Its tokens are the matter of the organization that minted them.

const world = await startTestWorld(t)
const { owner, admin, outsider } = world.users
const { robotAdmin } = world.serviceAccounts
const { acme, initech } = world.organizations
const database = new pg.Pool({ connectionString: world.databaseUrl, max: 4 })
t.teardown(() => database.end())

type Credential = Record<string, string>

const give = (userId: number, organizationId: number, role: string) =>
  database.query('insert into role_assignments (user_id, organization_id, role) values ($1, $2, $3)', [
    ...[userId, organizationId, role],
  ])

const take = (userId: number, organizationId: number) =>
  database.query('delete from role_assignments where user_id = $1 and organization_id = $2', [userId, organizationId])

let accounts = 0

async function createAccount(roles: Readonly<Record<number, string>>): Promise<number> {
  accounts += 1
  const { rows } = await database.query<{ id: number }>(
    "insert into users (email, user_type) values ($1, 'client-managed') returning id",
    [`shared-${accounts}@x.example`],
  )
  const id = rows[0]?.id ?? 0
  for (const [organizationId, role] of Object.entries(roles)) await give(id, Number(organizationId), role)
  return id
}

const tokensOf = (userId: number, organizationId = acme.id) => `/organizations/${organizationId}/users/${userId}/tokens`

async function mint(userId: number, credential: Credential, organizationId = acme.id): Promise<number> {
  const answer = await world.call({
    method: 'POST',
    path: tokensOf(userId, organizationId),
    headers: { ...credential, 'content-type': 'application/json' },
    body: JSON.stringify({ scope: 'api-key' }),
  })
  return answer.json().data?.id ?? 0
}

/** A token as an older gateway, or another program, wrote it: its organization is not known. */
async function writeToken(client: Pick<pg.Pool, 'query'>, userId: number): Promise<{ id: number; token: string }> {
  const { secret, hash } = makeSecret(randomInt)
  const { rows } = await client.query<{ id: number }>(
    `insert into auth_access_tokens (tokenable_id, type, hash, abilities, created_at)
     values ($1, 'auth_token', $2, '["*"]', now()) returning id`,
    [userId, hash],
  )
  const id = rows[0]?.id ?? 0
  return { id, token: formatToken(id, secret) }
}

const list = async (userId: number, credential: Credential, organizationId = acme.id, query = '') => {
  const { data, meta } = (
    await world.call({ path: tokensOf(userId, organizationId) + query, headers: credential })
  ).json()
  return { ids: data.map(({ id }: { id: number }) => id), total: meta.total }
}

const revoke = (userId: number, id: number, credential: Credential, organizationId = acme.id) =>
  world.call({ method: 'DELETE', path: `${tokensOf(userId, organizationId)}/${id}`, headers: credential })

const isStored = async (id: number): Promise<boolean> =>
  (await database.query('select from auth_access_tokens where id = $1', [id])).rowCount === 1

/** An account of two organizations, and a token of it from each, and one that no organization is known of. */
async function share(roleHere = 'org-member') {
  const account = await createAccount({ [acme.id]: roleHere })
  const ofAcme = await mint(account, oauth(owner))
  await give(account, initech.id, 'org-member')
  await give(outsider.id, initech.id, 'org-admin')
  await give(outsider.id, acme.id, 'org-owner')
  await until(async () => (await mint(account, oauth(outsider), initech.id)) > 0, 'the mint of initech')
  await take(outsider.id, acme.id)
  const { rows } = await database.query<{ token_id: number }>(
    'select token_id from token_organizations where organization_id = $1 order by token_id desc limit 1',
    [initech.id],
  )
  const unknown = (await writeToken(database, account)).id
  return { account, ofAcme, ofInitech: rows[0]?.token_id ?? 0, unknown }
}

t.afterEach(() => take(outsider.id, initech.id))

t.test('an administrator lists and revokes what was minted in its organization', async (t) => {
  const { account, ofAcme, ofInitech, unknown } = await share()
  for (const credential of [oauth(admin), oauth(owner), bearer(robotAdmin.apiSecret)]) {
    t.same(await list(account, credential), { ids: [ofAcme], total: 1 })
    t.same(await list(account, credential, acme.id, '?page=2&perPage=1'), { ids: [], total: 1 })
    const absent = (await revoke(account, 999_999, credential)).json()
    for (const id of [ofInitech, unknown]) {
      const refused = await revoke(account, id, credential)
      t.equal(refused.status, 404)
      t.same(
        { ...refused.json().error, requestId: 0 },
        { ...absent.error, requestId: 0 },
        'as for one that is not there',
      )
      t.ok(await isStored(id))
    }
  }
  t.same(await list(account, oauth(outsider), initech.id), { ids: [ofInitech], total: 1 })
  t.equal((await revoke(account, ofAcme, oauth(outsider), initech.id)).status, 404)
  t.equal((await revoke(account, ofAcme, oauth(admin))).status, 200)
  t.equal((await revoke(account, ofInitech, oauth(outsider), initech.id)).status, 200)
})

t.test('a caller who could mint for the account lists and revokes all of its tokens', async (t) => {
  const { account, ofAcme, ofInitech, unknown } = await share()
  await give(admin.id, initech.id, 'org-admin')
  t.teardown(() => take(admin.id, initech.id))
  t.same(await list(account, oauth(admin)), { ids: [unknown, ofInitech, ofAcme], total: 3 })
  for (const id of [unknown, ofInitech, ofAcme]) t.equal((await revoke(account, id, oauth(admin))).status, 200)
})

t.test('a role that the caller lost counts at once, whatever a cache still holds', async (t) => {
  const { account, ofAcme, ofInitech, unknown } = await share()
  for (let round = 0; round < 3; round++) {
    await give(admin.id, initech.id, 'org-admin')
    t.equal((await list(account, oauth(admin))).total, 3)
    await take(admin.id, initech.id)
    t.same((await list(account, oauth(admin))).ids, [ofAcme])
    t.equal((await revoke(account, ofInitech, oauth(admin))).status, 404)
  }
  t.ok(await isStored(unknown))
})

t.test('an account above the caller, or with a bypass scope, shows what was minted here alone', async (t) => {
  const above = await createAccount({ [acme.id]: 'org-owner' })
  const minted = await mint(above, oauth(owner))
  const { id: unknown } = await writeToken(database, above)
  t.same(await list(above, oauth(admin)), { ids: [minted], total: 1 })
  t.equal((await revoke(above, unknown, oauth(admin))).status, 404)
  t.same((await list(above, oauth(owner))).ids, [unknown, minted], 'an owner could mint for it')
  await database.query("insert into role_assignments (user_id, role) values ($1, 'admin')", [above])
  t.same((await list(above, oauth(owner))).ids, [minted])
  t.equal((await revoke(above, minted, oauth(admin))).status, 200)
})

t.test('a token that was minted with a token ends with it, whichever organization it was minted in', async (t) => {
  const account = await createAccount({ [acme.id]: 'org-admin', [initech.id]: 'org-admin' })
  const parent = await createAccount({ [acme.id]: 'org-admin', [initech.id]: 'org-admin' })
  const { id, token } = await writeToken(database, parent)
  await database.query('insert into token_organizations (token_id, organization_id) values ($1, $2)', [id, acme.id])
  const child = await mint(account, bearer(token), initech.id)
  t.equal((await revoke(parent, id, oauth(admin))).status, 200)
  t.notOk(await isStored(child))
})

t.test('the organizations of older tokens are found in the trail, by the SQL of the guide', async (t) => {
  const guide = readFileSync(new URL('../../docs/guides/upgrade-credentials.md', import.meta.url), 'utf8')
  const [, sql = ''] = /```sql\n(insert into sallyport_directory\.token_organizations[\s\S]*?)```/.exec(guide) ?? []
  const { account, ofAcme, ofInitech, unknown } = await share()
  await database.query('delete from token_organizations')
  t.same((await list(account, oauth(admin))).ids, [])
  await database.query(sql)
  await database.query(sql)
  t.same((await list(account, oauth(admin))).ids, [ofAcme])
  t.same((await list(account, oauth(outsider), initech.id)).ids, [ofInitech])
  t.ok(await isStored(unknown))
})

t.test('beside an adopted table tokens belong to the organization of their mint as well', async (t) => {
  const databaseUrl = await startTestDatabase(t)
  const backendOwner = new pg.Client({ connectionString: databaseUrl })
  await backendOwner.connect()
  await backendOwner.query(`${backendTables}; ${backendRows};
    insert into organizations (name, slug, account_type, created_at) values ('Globex', 'globex', 'enterprise', now());
    insert into users (email, password, user_type, created_at) values ('other@globex.example', 'x', 'client-managed', now()),
      ('shared@x.example', 'x', 'client-managed', now());
    insert into user_roles (user_id, role_id, organization_id) values (2, 1, 2), (3, 2, 1), (3, 2, 2)`)
  await backendOwner.end()
  const { backend, gatewayUrl } = await adoptDatabase(t, databaseUrl)
  const gateway = await startTestGateway(t, { settings: { database: { url: gatewayUrl, ...world.patience } } })
  const [ofAcme, ofGlobex] = [
    bearer((await writeToken(backend, 1)).token),
    bearer((await writeToken(backend, 2)).token),
  ]
  const ask = (method: string, path: string, headers: Credential, body = ''): Promise<Answer> =>
    call(gateway.public, { method, path, headers: { ...headers, 'content-type': 'application/json' }, body })
  const mintHere = (headers: Credential, organizationId: number) =>
    ask('POST', tokensOf(3, organizationId), headers, '{"scope":"api-key"}')
  // Each robot administers its own organization alone, so each mints while the account is a member there alone.
  const ids: number[] = []
  for (const [organizationId, headers] of [ofAcme, ofGlobex].map((headers, index) => [index + 1, headers] as const)) {
    await backend.query('delete from user_roles where user_id = 3 and organization_id <> $1', [organizationId])
    ids.push((await mintHere(headers, organizationId)).json().data.id)
    await backend.query('insert into user_roles (user_id, role_id, organization_id) values (3, 2, $1)', [
      3 - organizationId,
    ])
  }
  const { id: unknown } = await writeToken(backend, 3)
  const listed = async (headers: Credential, organizationId: number) =>
    (await ask('GET', tokensOf(3, organizationId), headers)).json().data.map(({ id }: { id: number }) => id)
  t.same(await listed(ofAcme, 1), [ids[0]])
  t.same(await listed(ofGlobex, 2), [ids[1]])
  for (const id of [ids[1], unknown]) t.equal((await ask('DELETE', `${tokensOf(3, 1)}/${id}`, ofAcme)).status, 404)
  t.equal((await ask('DELETE', `${tokensOf(3, 1)}/${ids[0]}`, ofAcme)).status, 200)
  await backend.query('delete from user_roles where user_id = 3 and organization_id = 1')
  t.same(await listed(ofGlobex, 2), [unknown, ids[1]], 'the account is a member here alone, so a mint could be')
})
