import { decodeJwt } from 'jose'
import pg from 'pg'
import t, { type Test } from 'tap'
import { adoptDatabase, readExample } from '../support/adonis/adopted.ts'
import { backendRows, backendTables } from '../support/adonis/tables.ts'
import { call } from '../support/client.ts'
import { runCommand } from '../support/command-line.ts'
import { startTestGateway, until, writeConfiguration } from '../support/gateway.ts'
import { startReplica } from '../support/replicas.ts'
import { oauth, startTestDatabase, startTestWorld } from '../support/world.ts'

// "Pre-hijacked accounts" (Sudhodanan and Paverd, USENIX Security 2022). A user who first logs in with an unverified
// address must not become the account that its owner is linked to later.

const world = await startTestWorld(t)
const database = new pg.Pool({ connectionString: world.databaseUrl, max: 2 })
t.teardown(() => database.end())

type Trust = Readonly<{ linkVerifiedEmail?: boolean; trustEmailVerified?: boolean }>
type LogIn = (sub: string, email: string, isVerified: boolean | undefined) => Promise<number>

const logInAt =
  (origin: string): LogIn =>
  async (sub, email, isVerified) => {
    const jwt = await world.mint({ sub, email, claims: { email_verified: isVerified ?? null } })
    return (await call(origin, { path: '/users/me', headers: oauth({ jwt }) })).json().data.id
  }

const describeIssuers = (trust: Trust) => ({
  issuers: [{ issuer: world.oidc.issuer, audience: world.oidc.audience, clockToleranceSeconds: 0, ...trust }],
})

async function trustIssuer(t: Test, trust: Trust): Promise<LogIn> {
  return logInAt((await startTestGateway(t, { world, settings: describeIssuers(trust) })).public)
}

async function createHuman(email: string, isVerified = true): Promise<number> {
  const { rows } = await database.query<{ id: number }>(
    "insert into users (email, user_type, email_verified) values ($1, 'human', $2) returning id",
    [email, isVerified],
  )
  return rows[0]?.id ?? 0
}

async function isVerified(id: number): Promise<boolean | undefined> {
  const { rows } = await database.query<{ email_verified: boolean }>('select email_verified from users where id = $1', [
    id,
  ])
  return rows[0]?.email_verified
}

t.test('a first login with an unverified address is not the account of the address’s owner', async (t) => {
  const logIn = await trustIssuer(t, { linkVerifiedEmail: true })
  for (const claim of [false, undefined]) {
    const email = `victim-${claim}@x.example`
    const attacker = await logIn(`attacker-${claim}`, email, claim)
    const victim = await logIn(`victim-${claim}`, email, true)
    t.not(victim, attacker)
    t.equal(await isVerified(attacker), false)
    t.equal(await isVerified(victim), true)
    t.equal(await logIn(`victim-again-${claim}`, email, true), victim, 'a third identity is the victim’s, not a guess')
  }
})

t.test('an attacker who was first does not keep the owner from an account that an operator made', async (t) => {
  const logIn = await trustIssuer(t, { linkVerifiedEmail: true })
  const attacker = await logIn('early', 'made@x.example', false)
  const made = await createHuman('made@x.example')
  t.equal(await logIn('made', 'made@x.example', true), made)
  t.not(made, attacker)
})

t.test('an address that two humans have verified links to neither', async (t) => {
  const logIn = await trustIssuer(t, { linkVerifiedEmail: true })
  const shared = [await createHuman('shared@x.example'), await createHuman('SHARED@x.example')]
  t.notOk(shared.includes(await logIn('shared', 'shared@x.example', true)))
})

t.test('an account is linked to only while its own address is verified', async (t) => {
  const logIn = await trustIssuer(t, { linkVerifiedEmail: true })
  const id = await createHuman('old@x.example')
  await database.query("update users set email = 'new@x.example' where id = $1", [id])
  t.equal(await isVerified(id), false, 'another address is another question')
  t.not(await logIn('newcomer', 'new@x.example', true), id)
  await database.query("update users set email = 'taken@x.example', email_verified = true where id = $1", [id])
  t.equal(await isVerified(id), false, 'whatever the same statement says')
  await database.query('update users set email_verified = true where id = $1', [id])
  await database.query("update users set full_name = 'N' where id = $1", [id])
  t.equal(await logIn('later', 'taken@x.example', true), id)
})

t.test('a login verifies the address where the issuer is trusted with that: by default, if it may link', async (t) => {
  for (const [name, trust, isTrusted] of [
    ['by default', {}, false],
    ['with the link', { linkVerifiedEmail: true }, true],
    ['for itself', { trustEmailVerified: true }, true],
    ['not, although it links', { linkVerifiedEmail: true, trustEmailVerified: false }, false],
  ] as const) {
    const logIn = await trustIssuer(t, trust)
    const email = `${name.replace(/\W/g, '-')}@x.example`
    const id = await logIn(`${name} 1`, email, true)
    t.equal(await isVerified(id), isTrusted, `${name}: a first login`)
    const later = await logIn(`${name} 2`, `later-${email}`, false)
    t.equal(await isVerified(later), false, `${name}: an unverified one`)
    t.equal(await logIn(`${name} 2`, `another-${email}`, true), later)
    t.equal(await isVerified(later), false, `${name}: a login with another address`)
    t.equal(await logIn(`${name} 2`, `LATER-${email}`, true), later)
    t.equal(await isVerified(later), isTrusted, `${name}: a later login with that address`)
  }
})

t.test('a link leaves an audit event and a line of the log: who, to whom, from where', async (t) => {
  const id = await createHuman('audited@x.example')
  const replica = await startReplica(t, { world, settings: { ...describeIssuers({ linkVerifiedEmail: true }) } })
  const jwt = await world.mint({ sub: 'audited', email: 'audited@x.example', claims: { email_verified: true } })
  const headers = { ...oauth({ jwt }), 'x-request-id': 'linking' }
  t.equal((await call(replica.public, { path: '/users/me', headers })).json().data.id, id)
  const { rows } = await database.query(
    "select * from audit_events where action = 'identity.linked' and subject_id = $1",
    [id],
  )
  t.match(rows, [{ actor_id: id, credential: 'oauth', organization_id: null, request_id: 'linking' }])
  t.equal(rows[0].client_address, '127.0.0.1')
  const findLine = (): string | undefined =>
    replica
      .readLog()
      .split('\n')
      .find((line) => line.includes('identity linked'))
  await until(findLine, 'the line')
  t.match(JSON.parse(findLine() ?? ''), { userId: id, issuer: world.oidc.issuer, requestId: 'linking' })
  t.notMatch(findLine(), 'audited@x.example', 'and no address')
})

t.test('backends are told whether the address was verified, and at once when that changes', async (t) => {
  const told = async (jwt: string) => {
    await world.clearRecorder()
    t.equal((await world.call({ path: '/public/x', headers: oauth({ jwt }) })).status, 200)
    const [recorded] = await world.recorded()
    const identity = recorded?.headers.find(([name]) => name.toLowerCase() === 'x-gateway-identity')?.[1] ?? ''
    return decodeJwt<{ user: object }>(identity).user
  }
  const jwt = await world.mint({ sub: 'told', email: 'told@x.example' })
  const user = (await told(jwt)) as { id: number }
  t.match(user, { email: 'told@x.example', emailVerified: false })
  await database.query('update users set email_verified = true where id = $1', [user.id])
  await until(async () => ((await told(jwt)) as { emailVerified: boolean }).emailVerified, 'the change')
  await database.query("update users set email = 'other@x.example' where id = $1", [user.id])
  const isOther = async () => ((await told(jwt)) as { email: string }).email === 'other@x.example'
  await until(isOther, 'the change')
  t.match(await told(jwt), { emailVerified: false })
})

t.test('in an adopted database the view’s column decides, and one that is not there reads as false', async (t) => {
  const databaseUrl = await startTestDatabase(t)
  const owner = new pg.Client({ connectionString: databaseUrl })
  await owner.connect()
  await owner.query(`${backendTables}; ${backendRows}; alter table users drop constraint users_email_key;
    alter table users add column verified_at timestamptz;
    insert into users (email, password, created_at) values ('person@acme.example', 'x', now())`)
  await owner.end()
  const { backend, gatewayUrl } = await adoptDatabase(t, databaseUrl)
  const settings = { ...describeIssuers({ linkVerifiedEmail: true }), database: { url: gatewayUrl, ...world.patience } }
  const logIn = logInAt((await startTestGateway(t, { settings })).public)
  const config = writeConfiguration(t, { settings })
  const check = async () => (await runCommand(['directory', 'check', '--config', config, '--try-writes'])).stdout

  const example = readExample(new URL(gatewayUrl).username)
  const setColumn = async (column: string): Promise<void> => {
    const sql = example.replace(/,(?:\s*--.*)*\s*false as email_verified/, column)
    t.not(sql, example)
    await backend.query(`begin; ${sql}; commit`)
  }
  const { rows } = await backend.query("select id from users where email = 'person@acme.example'")
  const person = rows[0].id
  await setColumn('')
  t.not(await logIn('one', 'person@acme.example', true), person)
  const checked = await check()
  t.match(checked, /users\.email_verified: warning\[missing-column\]/)
  t.notMatch(checked, /directory\.users\S*: error/, 'and nothing fails of it')
  await setColumn(', verified_at as email_verified')
  t.not(await logIn('two', 'person@acme.example', true), person, 'a value of another type is not a yes')
  t.match(await check(), /users\.email_verified: warning\[wrong-type\]/)
  await setColumn(', verified_at is not null as email_verified')
  t.not(await logIn('three', 'person@acme.example', true), person, 'not verified')
  await backend.query('update users set verified_at = now() where id = $1', [person])
  t.equal(await logIn('four', 'PERSON@acme.example', true), person)
  t.notMatch(await check(), /email_verified/)
})

// Last, since it takes the view apart.
t.test('addresses compare without case in ASCII alone, whatever the column is', async (t) => {
  const logIn = await trustIssuer(t, { linkVerifiedEmail: true })
  const kelvin = '\u212a' // folds into "k" by Unicode
  const id = await createHuman('kate@x.example')
  for (const type of ['text collate "und-x-icu"', 'text collate "C"']) {
    await database.query('drop view if exists sallyport_directory.users, sallyport_directory.managed_users')
    await database.query('drop trigger if exists sallyport_doubt_email on users')
    await database.query(`alter table users alter column email type ${type}`)
    await database.query(`create view sallyport_directory.users as select id, email, username, first_name, last_name,
      full_name, user_type, current_organization_id, updated_at, email_verified from users`)
    const { rows } = await database.query(`select lower('${kelvin}' collate "und-x-icu") = 'k' as folds`)
    t.ok(rows[0].folds, 'a locale folds it')
    t.not(await logIn(`kelvin ${type}`, `${kelvin}ate@x.example`, true), id)
    t.equal(await logIn(`ascii ${type}`, 'KATE@X.example', true), id)
  }
})
