import { randomInt } from 'node:crypto'
import pg from 'pg'
import t, { type Test } from 'tap'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { adoptDatabase } from '../support/adonis/adopted.ts'
import { backendRows, backendTables } from '../support/adonis/tables.ts'
import type { Answer } from '../support/client.ts'
import { call } from '../support/client.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { bearer, oauth, startTestDatabase, startTestWorld } from '../support/world.ts'

// A token acts wherever its account is a member: minting one lends all of the account's rights, in every tenant.

const world = await startTestWorld(t)
const { owner, admin, member, platformAdmin } = world.users
const { robotAdmin } = world.serviceAccounts
const { acme, globex, initech } = world.organizations
const other = await startTestGateway(t, { world })

const database = new pg.Pool({ connectionString: world.databaseUrl, max: 4 })
t.teardown(() => database.end())

type Role = readonly [organizationId: number | null, role: string]
type Credential = Record<string, string>

let accounts = 0

/** A service account with these roles; without an organization a role holds on the platform. */
async function createAccount(...roles: readonly Role[]): Promise<number> {
  accounts += 1
  const { rows } = await database.query<{ id: number }>(
    "insert into users (email, user_type) values ($1, 'client-managed') returning id",
    [`account-${accounts}@x.example`],
  )
  const id = rows[0]?.id ?? 0
  for (const [organizationId, role] of roles) await give(id, organizationId, role)
  return id
}

const give = (userId: number, organizationId: number | null, role: string) =>
  database.query('insert into role_assignments (user_id, organization_id, role) values ($1, $2, $3)', [
    ...[userId, organizationId, role],
  ])

const take = (userId: number, organizationId: number) =>
  database.query('delete from role_assignments where user_id = $1 and organization_id = $2', [userId, organizationId])

const tokensOf = (userId: number, organizationId = acme.id) => `/organizations/${organizationId}/users/${userId}/tokens`

const mint = (userId: number, credential: Credential, body: unknown = { scope: 'api-secret' }, at = acme.id) =>
  world.call({
    method: 'POST',
    path: tokensOf(userId, at),
    headers: { ...credential, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

const read = (token: string, origin = world.public) =>
  call(origin, { path: '/users/me', headers: bearer(token) }).then(({ status }) => status)

async function traces(userId: number): Promise<number> {
  const { rows } = await database.query(
    `select (select count(*) from auth_access_tokens where tokenable_id = $1)::int
      + (select count(*) from audit_events where subject_id = $1)::int as count`,
    [userId],
  )
  return rows[0].count
}

const refusal = (answer: Answer) => [answer.status, answer.json().error?.code]
const outOfReach = [403, 'account_out_of_reach']

t.test('an administrator mints for no account that is also a member elsewhere', async (t) => {
  for (const role of ['org-client', 'org-member', 'org-owner']) {
    const shared = await createAccount([acme.id, 'org-member'], [initech.id, role])
    t.same(refusal(await mint(shared, oauth(admin))), outOfReach, role)
    t.same(refusal(await mint(shared, oauth(owner))), outOfReach, `an owner neither: ${role}`)
    t.same(refusal(await mint(shared, bearer(robotAdmin.apiSecret))), outOfReach, `a token neither: ${role}`)
    t.equal(await traces(shared), 0, 'nothing is minted or noted')
  }
})

t.test('a member elsewhere is not an administrator there', async (t) => {
  const shared = await createAccount([acme.id, 'org-member'], [globex.id, 'org-client'])
  t.same(refusal(await mint(shared, oauth(owner))), outOfReach, 'owner is org-member of globex')
})

t.test('an administrator of all its organizations mints for a shared account, until one is taken away', async (t) => {
  const shared = await createAccount([acme.id, 'org-member'], [initech.id, 'org-member'])
  await give(admin.id, initech.id, 'org-admin')
  t.teardown(() => take(admin.id, initech.id))
  const may = async (expected: number) =>
    until(async () => (await mint(shared, oauth(admin))).status === expected, 'it')
  await may(201)
  await take(admin.id, initech.id)
  t.same(refusal(await mint(shared, oauth(admin))), outOfReach, 'at once, whatever a cache still holds')
  await give(admin.id, initech.id, 'org-member')
  t.same(refusal(await mint(shared, oauth(admin))), outOfReach, 'a lower role is not enough')
})

t.test('a membership that the account is given counts for the very next mint', async (t) => {
  const account = await createAccount([acme.id, 'org-member'])
  t.equal((await mint(account, oauth(admin))).status, 201)
  for (let round = 0; round < 5; round++) {
    await give(account, initech.id, 'org-client')
    t.same(refusal(await mint(account, oauth(admin))), outOfReach)
    await take(account, initech.id)
    t.equal((await mint(account, oauth(admin))).status, 201)
  }
})

t.test('no caller mints for an account above its own role', async (t) => {
  const above = await createAccount([acme.id, 'org-owner'])
  t.same(refusal(await mint(above, oauth(admin))), outOfReach)
  t.equal(await traces(above), 0)
  t.equal((await mint(above, oauth(owner))).status, 201, 'an owner mints for an owner')
  const beside = await createAccount([acme.id, 'org-admin'])
  t.equal((await mint(beside, oauth(admin))).status, 201, 'an administrator for an administrator')
})

t.test('no caller mints for an account with a bypass scope', async (t) => {
  const mighty = await createAccount([acme.id, 'org-client'], [null, 'admin'])
  for (const caller of [admin, owner, platformAdmin]) t.same(refusal(await mint(mighty, oauth(caller))), outOfReach)
  const plain = await createAccount([acme.id, 'org-client'], [null, 'user'])
  t.equal((await mint(plain, oauth(admin))).status, 201, 'other platform roles lend nothing')
})

t.test('a bypass scope counts as the highest role where its holder is a member, and nowhere else', async (t) => {
  const above = await createAccount([acme.id, 'org-owner'])
  t.equal((await mint(above, oauth(platformAdmin))).status, 201)
  const shared = await createAccount([acme.id, 'org-client'], [initech.id, 'org-client'])
  t.same(refusal(await mint(shared, oauth(platformAdmin))), outOfReach)
})

t.test('the rank is asked for last: after the caller, the membership, the body and the kind of account', async (t) => {
  const shared = await createAccount([acme.id, 'org-owner'], [initech.id, 'org-owner'])
  t.same(refusal(await mint(shared, oauth(member))), [403, 'role_insufficient'])
  const stranger = await createAccount([initech.id, 'org-owner'])
  t.equal((await mint(stranger, oauth(admin))).status, 404)
  t.equal((await mint(shared, oauth(admin), { scope: 'root' })).status, 422)
  t.equal((await mint(owner.id, oauth(admin))).status, 422, 'a human above the caller')
})

t.test('lists and revocations lend nothing, and ask for no more than before', async (t) => {
  const shared = await createAccount([acme.id, 'org-owner'])
  const { data } = (await mint(shared, oauth(owner))).json()
  await give(shared, initech.id, 'org-owner')
  t.equal((await world.call({ path: tokensOf(shared), headers: oauth(admin) })).status, 200)
  const path = `${tokensOf(shared)}/${data.id}`
  t.equal((await world.call({ method: 'DELETE', path, headers: oauth(admin) })).status, 200)
})

const inHours = (hours: number): string => new Date(Date.now() + hours * 3_600_000).toISOString()

type Minted = Readonly<{ id: number; token: string; expiresAt: string | null }>

const minted = async (userId: number, credential: Credential, body: object = {}): Promise<Minted> =>
  (await mint(userId, credential, { scope: 'api-secret', ...body })).json().data

t.test('a token minted with a token expires no later than that one', async (t) => {
  const account = await createAccount([acme.id, 'org-admin'])
  const expiresAt = inHours(2)
  const parent = await minted(account, oauth(admin), { expiresAt })
  t.equal((await minted(account, bearer(parent.token))).expiresAt, expiresAt, 'the parent’s without one')
  t.equal((await minted(account, bearer(parent.token), { expiresAt: null })).expiresAt, expiresAt)
  t.equal((await minted(account, bearer(parent.token), { expiresAt })).expiresAt, expiresAt, 'the same')
  const sooner = inHours(1)
  const child = await minted(account, bearer(parent.token), { expiresAt: sooner })
  t.equal(child.expiresAt, sooner)
  for (const credential of [bearer(parent.token), bearer(child.token)]) {
    const later = await mint(account, credential, { scope: 'api-key', expiresAt: inHours(3) })
    t.equal(later.status, 422)
    t.match(later.json().error.messages, [{ field: 'expiresAt', rule: 'max' }])
  }
  const endless = await minted(account, oauth(admin))
  t.equal((await minted(account, bearer(endless.token))).expiresAt, null, 'from one without end')
  t.equal((await minted(account, bearer(endless.token), { expiresAt })).expiresAt, expiresAt)
})

/** Parent, child, grandchild and great-grandchild, each warm in the caches of both gateways. */
async function createLine(): Promise<Readonly<{ account: number; line: readonly Minted[] }>> {
  const account = await createAccount([acme.id, 'org-admin'])
  const line = [await minted(account, oauth(admin))]
  while (line.length < 4) line.push(await minted(account, bearer(line.at(-1)?.token ?? '')))
  for (const { token } of line)
    for (const origin of [world.public, other.public]) if ((await read(token, origin)) !== 200) throw new Error('cold')
  return { account, line }
}

const statuses = (line: readonly Minted[], origin: string) => Promise.all(line.map(({ token }) => read(token, origin)))

/** Both gateways refuse all of them, within the bound of the caches. */
async function die(t: Test, line: readonly Minted[], what: string): Promise<void> {
  for (const origin of [world.public, other.public]) {
    const startedMs = performance.now()
    await until(async () => (await statuses(line, origin)).every((status) => status === 401), what, 3_000)
    t.pass(`${what}: refused after ${Math.round(performance.now() - startedMs)} ms`)
  }
}

const endings: Readonly<Record<string, (parent: Minted, account: number) => Promise<unknown>>> = {
  'a revocation by the endpoint': (parent, account) =>
    world.call({ method: 'DELETE', path: `${tokensOf(account)}/${parent.id}`, headers: oauth(admin) }),
  'a deletion by another program': ({ id }) => database.query('delete from auth_access_tokens where id = $1', [id]),
  'its expiry, set by another program': ({ id }) =>
    database.query("update auth_access_tokens set expires_at = now() - interval '1 s' where id = $1", [id]),
}

for (const [name, end] of Object.entries(endings))
  t.test(`a minted token dies with its parent, by ${name}, on every replica`, async (t) => {
    const { account, line } = await createLine()
    await end(line[0] as Minted, account)
    await die(t, line, name)
  })

t.test('the end of a line dies with a token in its middle, and earlier tokens stay', async (t) => {
  const { account, line } = await createLine()
  const path = `${tokensOf(account)}/${line[1]?.id}`
  t.equal((await world.call({ method: 'DELETE', path, headers: oauth(admin) })).status, 200)
  await die(t, line.slice(1), 'the rest of the line')
  t.equal(await read(line[0]?.token ?? ''), 200)
  const { rows } = await database.query(
    "select token_id from audit_events where action = 'token.revoked' and subject_id = $1 order by token_id",
    [account],
  )
  t.same(
    rows.map(({ token_id }) => token_id),
    line.slice(1).map(({ id }) => id),
    'each is in the trail',
  )
})

t.test('a token minted for another account dies with the minter’s account', async (t) => {
  const minter = await createAccount([acme.id, 'org-admin'])
  const borrower = await createAccount([acme.id, 'org-member'])
  const parent = await minted(minter, oauth(admin))
  const child = await minted(borrower, bearer(parent.token))
  t.equal(await read(child.token), 200)
  t.equal(await read(child.token, other.public), 200)
  await database.query('delete from users where id = $1', [minter])
  await die(t, [child], 'the minter’s account')
  const { data, meta } = (await world.call({ path: tokensOf(borrower), headers: oauth(admin) })).json()
  t.same([data, meta.total], [[], 0], 'as little as a revoked token is it listed')
})

t.test('a mint while its token is being revoked gives nothing that lasts', async (t) => {
  const account = await createAccount([acme.id, 'org-admin'])
  const parent = await minted(account, oauth(admin))
  const revoking = await database.connect()
  try {
    await revoking.query('begin')
    await revoking.query('delete from auth_access_tokens where id = $1', [parent.id])
    const child = await minted(account, bearer(parent.token))
    await revoking.query('commit')
    await die(t, [parent, child], 'the child of a token that was being revoked')
  } finally {
    revoking.release()
  }
  t.equal((await mint(account, bearer(parent.token))).status, 401)
})

t.test('a line of tokens has an end', async (t) => {
  const account = await createAccount([acme.id, 'org-admin'])
  let last = await minted(account, oauth(admin))
  for (let length = 0; length < 8; length++) last = await minted(account, bearer(last.token))
  t.equal(await read(last.token), 200)
  t.same(refusal(await mint(account, bearer(last.token))), [403, 'ability_missing'])
})

t.test('a circle of parents, written by hand, lets no token in and delays no request', async (t) => {
  const account = await createAccount([acme.id, 'org-admin'])
  const [one, two] = [await minted(account, oauth(admin)), await minted(account, oauth(admin))]
  t.equal(await read(one.token), 200)
  await database.query('insert into token_parents (token_id, parent_id) values ($1, $2), ($2, $1)', [one.id, two.id])
  await die(t, [one, two], 'a circle')
  t.equal((await world.call({ path: tokensOf(account), headers: oauth(admin) })).status, 200)
  const path = `${tokensOf(account)}/${one.id}`
  t.equal((await world.call({ method: 'DELETE', path, headers: oauth(admin) })).status, 200)
})

t.test('tokens minted with no token have no parent, and go on whatever ends', async (t) => {
  const account = await createAccount([acme.id, 'org-admin'])
  const parent = await minted(account, oauth(admin))
  const apart = await minted(account, oauth(admin))
  await world.call({ method: 'DELETE', path: `${tokensOf(account)}/${parent.id}`, headers: oauth(admin) })
  t.equal(await read(apart.token), 200)
})

t.test('beside an adopted table a token dies with its parent as well, whichever program deletes it', async (t) => {
  const databaseUrl = await startTestDatabase(t)
  const backendOwner = new pg.Client({ connectionString: databaseUrl })
  await backendOwner.connect()
  await backendOwner.query(`${backendTables}; ${backendRows}`)
  await backendOwner.end()
  const { backend, gatewayUrl } = await adoptDatabase(t, databaseUrl)
  const gateway = await startTestGateway(t, { settings: { database: { url: gatewayUrl, ...world.patience } } })
  const { secret, hash } = makeSecret(randomInt)
  const { rows } = await backend.query<{ id: number }>(
    `insert into auth_access_tokens (tokenable_id, type, hash, abilities) values (1, 'auth_token', $1, '["*"]') returning id`,
    [hash],
  )
  const id = rows[0]?.id ?? 0
  const parent = formatToken(id, secret)
  const mintWith = async (token: string): Promise<Minted> => {
    const headers = { ...bearer(token), 'content-type': 'application/json' }
    const body = JSON.stringify({ scope: 'api-secret' })
    return (await call(gateway.public, { method: 'POST', path: tokensOf(1, 1), headers, body })).json().data
  }
  const child = await mintWith(parent)
  const grandchild = await mintWith(child.token)
  t.equal(await read(grandchild.token, gateway.public), 200)
  const parents = await backend.query('select token_id, parent_id from sallyport_directory.token_parents order by 1')
  t.same(parents.rows, [
    { token_id: child.id, parent_id: id },
    { token_id: grandchild.id, parent_id: child.id },
  ])
  await backend.query('delete from auth_access_tokens where id = $1', [id])
  for (const { token } of [child, grandchild])
    await until(async () => (await read(token, gateway.public)) === 401, 'the refusal', 3_000)
})
