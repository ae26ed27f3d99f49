import pg from 'pg'
import t, { type Test } from 'tap'
import { startPostgres } from '../../demo/postgres.ts'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import { startJoinedFixture } from '../support/claims-gateway.ts'
import { until } from '../support/gateway.ts'
import { readAnswer } from '../support/streams.ts'
import { startTestWorld } from '../support/world.ts'

// A JWT goes on asserting its memberships after the database removed its user, identity or membership.

const world = await startTestWorld(t)
const fixture = await startJoinedFixture(t, world)
const database = new pg.Client({ connectionString: world.databaseUrl })
await database.connect()
t.teardown(() => database.end())

const umbrella = { 'x-organization-id': '1007' }
const acme = { 'x-organization-id': String(world.organizations.acme.id) }

type Headers = Record<string, string>

const statusOf = async (headers: Headers): Promise<number> =>
  (await fixture.call({ path: '/public/x', headers })).status

/** A user who is in `umbrella` by claims and in Acme by the database, and a stream of theirs in `umbrella`. */
async function enter(sub: string) {
  const jwt = await fixture.as({ sub, groups: ['/umbrella/org-owner', '/acme/org-owner'] })
  const { user } = await fixture.identityOf(jwt)
  await database.query(`insert into role_assignments (user_id, organization_id, role) values ($1, $2, 'org-member')`, [
    user.id,
    world.organizations.acme.id,
  ])
  await until(async () => (await statusOf({ ...jwt, ...acme })) === 200, 'a member of both')
  const open = await readAnswer(`${fixture.gateway.public}/model/${sub}`, { ...jwt, ...umbrella })
  await until(async () => open.text() !== '', 'the stream')
  return { jwt, userId: Number(user.id), open }
}

const countUsers = async (): Promise<number> =>
  (await database.query<{ count: number }>('select count(*)::int from users')).rows[0]?.count ?? 0

async function refusesAll(t: Test, jwt: Headers, sub: string): Promise<void> {
  const before = await countUsers()
  await until(async () => (await statusOf(jwt)) === 401, 'refused')
  for (const headers of [jwt, { ...jwt, ...umbrella }, { ...jwt, ...acme }]) t.equal(await statusOf(headers), 401)
  // Another JWT of the subject leads to the same refusal.
  const later = await fixture.as({ sub, groups: ['/umbrella/org-owner'], email: 'later@x.example' })
  t.equal(await statusOf({ ...later, ...umbrella }), 401)
  t.equal(await countUsers(), before, 'and no user was created')
}

const removals = {
  'an identity that was deleted': 'delete from user_identities where user_id = $1',
  'a user who was deleted': 'delete from users where id = $1',
  'a user who was disabled': 'update users set disabled_at = now() where id = $1',
}

for (const [what, sql] of Object.entries(removals))
  t.test(`claims bring back nothing for ${what}`, async (t) => {
    const sub = what.replaceAll(' ', '-')
    const { jwt, userId, open } = await enter(sub)
    await database.query(sql, [userId])
    t.match((await open.whole()).toString(), /"x_service_error_code":"access_revoked"/, 'the stream ends')
    await refusesAll(t, jwt, sub)
  })

t.test('claims bring back no membership that the database removed', async (t) => {
  const { jwt, userId, open } = await enter('expelled')
  await database.query('delete from role_assignments where user_id = $1', [userId])
  await until(async () => (await statusOf({ ...jwt, ...acme })) === 401, 'no member any more')
  t.equal(await statusOf({ ...jwt, ...umbrella }), 200, 'the organization of claims stays')
  t.notOk(open.hasEnded())
  open.leave()
})

t.test('an identity that is created again lets in, and so does the end of its note', async (t) => {
  const { jwt, userId, open } = await enter('returning')
  await database.query('delete from user_identities where user_id = $1', [userId])
  await open.whole()
  await until(async () => (await statusOf(jwt)) === 401, 'refused')
  const { issuer } = fixture.issuer
  await database.query(`insert into user_identities (user_id, issuer, subject) values ($1, $2, 'returning')`, [
    userId,
    issuer,
  ])
  await until(async () => (await statusOf({ ...jwt, ...acme })) === 200, 'the same user')
  await database.query('delete from user_identities where user_id = $1', [userId])
  await until(async () => (await statusOf(jwt)) === 401, 'refused')
  await database.query(`delete from sallyport_directory.removed_identities where subject = 'returning'`)
  t.equal(await statusOf({ ...jwt, ...umbrella }), 200)
  t.equal(await statusOf({ ...jwt, ...acme }), 401, 'a new user, without memberships of the database')
})

t.test('while removals are not noted, claims bring in no new identity', async (t) => {
  const { jwt, userId, open } = await enter('unnoted')
  t.teardown(() => database.query('alter table user_identities enable trigger user'))
  await database.query('alter table user_identities disable trigger sallyport_note_delete')
  await database.query('delete from user_identities where user_id = $1', [userId])
  await open.whole()
  const before = await countUsers()
  await until(async () => (await statusOf(jwt)) === 503, 'unavailable')
  t.equal(await countUsers(), before, 'and no user was created')
  const known = await fixture.as({ sub: 'returning', groups: ['/umbrella/org-owner'] })
  t.equal(await statusOf({ ...known, ...umbrella }), 200, 'a known one goes on')
  await database.query('alter table user_identities enable trigger sallyport_note_delete')
  const fresh = await fixture.as({ sub: 'fresh', groups: ['/umbrella/org-owner'] })
  t.equal(await statusOf({ ...fresh, ...umbrella }), 200)
})

t.test('the notes follow each kind of write, of each role', async (t) => {
  const server = await startPostgres()
  t.teardown(() => server.stop())
  const urlOf = (name: string): string => Object.assign(new URL(server.url), { pathname: `/${name}` }).href
  const administrator = new pg.Client({ connectionString: server.url })
  await administrator.connect()
  t.teardown(() => administrator.end())
  await administrator.query("create role remover login password 'x'")
  for (const kind of ['own', 'adopted'] as const) {
    await administrator.query(`create database ${kind}`)
    await migrate(urlOf(kind), { adopt: kind === 'adopted' })
    const own = new pg.Client({ connectionString: urlOf(kind) })
    await own.connect()
    t.teardown(() => own.end())
    const table = kind === 'own' ? 'user_identities' : 'sallyport_directory.user_identities'
    if (kind === 'own')
      await own.query("insert into users (email, user_type) select 'a@x.example', 'human' from generate_series(1, 2)")
    const notes = async (): Promise<readonly string[]> =>
      (await own.query('select subject from sallyport_directory.removed_identities order by 1')).rows.map(
        ({ subject }) => subject,
      )
    await own.query(
      `insert into ${table} (user_id, issuer, subject) select 1, 'i', s from unnest('{a,b,c,d}'::text[]) s`,
    )
    t.same(await notes(), [])
    await own.query(`update ${table} set user_id = 2 where subject = 'a'`)
    t.same(await notes(), [], 'an identity with another user was not removed')
    await own.query(`update ${table} set subject = 'e' where subject = 'a'`)
    t.same(await notes(), ['a'])
    await own.query(`grant select, delete on ${table} to remover`)
    await own.query('grant usage on schema sallyport_directory to remover')
    const remover = new pg.Client({
      connectionString: Object.assign(new URL(urlOf(kind)), { username: 'remover', password: 'x' }).href,
    })
    await remover.connect()
    t.teardown(() => remover.end())
    await remover.query(`delete from ${table} where subject in ('b', 'c')`)
    t.same(await notes(), ['a', 'b', 'c'], 'noted without a right to the notes')
    await t.rejects(remover.query('delete from sallyport_directory.removed_identities'), { code: '42501' })
    const name = kind === 'own' ? 'sallyport_note_removed_identities' : 'sallyport_directory.note_removed_identities'
    await t.rejects(
      remover.query(`create temp table planted (issuer text, subject text); create trigger note after delete on planted
        referencing old table as before_rows for each statement execute function ${name}()`),
      { code: '42501' },
      'no table of another role writes notes',
    )
    await own.query(`insert into ${table} (user_id, issuer, subject) values (1, 'i', 'b')`)
    t.same(await notes(), ['a', 'c'])
    await own.query(kind === 'own' ? 'truncate users cascade' : `truncate ${table}`)
    t.same(await notes(), ['a', 'b', 'c', 'd', 'e'])
  }
})
