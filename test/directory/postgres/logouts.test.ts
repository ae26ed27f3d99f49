import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import t from 'tap'
import type { ReceivedLogout } from '../../../gateway/directory/logout.ts'
import { createLogoutStore } from '../../../gateway/directory/postgres/logouts.ts'
import { openDatabase } from '../../../gateway/directory/postgres/pool.ts'
import { adoptDatabase } from '../../support/adonis/adopted.ts'
import { backendRows, backendTables } from '../../support/adonis/tables.ts'
import { populate } from '../../support/population.ts'
import { startTestPostgres, startTestWorld } from '../../support/world.ts'

const world = await startTestWorld(t)
const { writer } = await populate(t, world)
const settings = { pooler: 'none', poolSize: 2, connectTimeoutMs: 10_000, queryTimeoutMs: 10_000 } as const
const open = (url: string) => {
  const database = openDatabase({ ...settings, url }, () => undefined)
  t.teardown(() => database.close())
  return createLogoutStore(database.query)
}
const store = open(world.databaseUrl)

const base = Math.floor(Date.now() / 1_000) - 10_000

const logout = (issuer: string, subject: string, session: string, at: number): ReceivedLogout => ({
  ...{ issuer, subject, session, at: base + at, expiresAt: base + at + 90_000 },
  ...{ credential: 'logout-token', clientAddress: '192.0.2.1', requestId: 'r' },
})

const read = async (issuer: string) =>
  (await store.readSince(0)).logouts
    .filter((one) => one.issuer === issuer)
    .map(({ subject, session, at }) => [subject, session, at - base])

t.test('a later logout replaces an earlier one, and an earlier one nothing', async (t) => {
  await store.write([logout('later', 'a', '', 10), logout('later', 'a', 's', 10)])
  await store.write([logout('later', 'a', '', 20), logout('later', 'a', 's', 5)])
  t.same(await read('later'), [
    ['a', '', 20],
    ['a', 's', 10],
  ])
  const { rows } = await writer.query("select from audit_events where action = 'sessions.signed_out'")
  t.equal(rows.length, 3, 'one entry for each that moved anything')
})

t.test('a read from the horizon has what was committed since, however late its transaction ended', async (t) => {
  await writer.query('begin')
  await writer.query(
    `insert into logouts (issuer, subject, at, expires_at) values ('slow', 'a', now(), now() + interval '1 day')`,
  )
  await store.write([logout('quick', 'a', '', 1)])
  const { horizon, logouts } = await store.readSince(0)
  t.notOk(logouts.some(({ issuer }) => issuer === 'slow'))
  await writer.query('commit')
  const next = await store.readSince(horizon)
  t.ok(next.logouts.some(({ issuer }) => issuer === 'slow'))
  // Transactions of other databases in this server hold the horizon back too.
  let { horizon: end, logouts: again } = next
  while (again.length > 0) {
    await setTimeout(20)
    ;({ horizon: end, logouts: again } = await store.readSince(end))
  }
  t.ok(end > horizon)
})

t.test('more logouts than a page are read whole', async (t) => {
  const { horizon } = await store.readSince(0)
  await writer.query(
    `insert into logouts (issuer, subject, session, at, expires_at)
     select 'pages', 'subject-' || n, '', now(), now() + interval '1 day' from generate_series(1, 12000) n`,
  )
  const { logouts } = await store.readSince(horizon)
  const found = logouts.filter(({ issuer }) => issuer === 'pages')
  t.equal(new Set(found.map(({ subject }) => subject)).size, 12_000)
})

t.test('sessions of one subject beyond the newest become one logout of the subject', async (t) => {
  const sessions = Array.from({ length: 6 }, (_, index) => logout('wide', 'busy', `s-${index}`, index))
  await store.write([...sessions, logout('wide', 'calm', 's', 1), logout('wide', '', 'alone', 1)])
  await store.widenSubjects('wide', ['busy', 'calm', ''], 4)
  t.same(await read('wide'), [
    ['', 'alone', 1],
    ['busy', '', 1],
    ...[2, 3, 4, 5].map((index) => ['busy', `s-${index}`, index]),
    ['calm', 's', 1],
  ])
})

t.test('logouts of one issuer beyond the newest become one of all its subjects, and others stay', async (t) => {
  await store.write([1, 2, 3, 4, 5].map((at) => logout('full', `subject-${at}`, '', at)))
  await store.write([logout('other', 'a', '', 1)])
  await store.widenIssuer('full', 3)
  const expected = [
    ['', '', 2],
    ['subject-3', '', 3],
    ['subject-4', '', 4],
    ['subject-5', '', 5],
  ]
  t.same(await read('full'), expected)
  await store.widenIssuer('full', 3)
  t.same(await read('full'), expected)
  t.same(await read('other'), [['a', '', 1]])
})

t.test('an expired logout is dropped, and no other', async (t) => {
  await writer.query(
    `insert into logouts (issuer, subject, at, expires_at) values
     ('old', 'a', now() - interval '2 days', now() - interval '1 second'),
     ('old', 'b', now() - interval '2 days', now() + interval '1 hour')`,
  )
  const rows = async () =>
    (await writer.query("select subject from logouts where issuer = 'old' order by subject")).rows
  const nowSeconds = Date.now() / 1_000
  await store.dropExpired(nowSeconds - 60)
  t.same(await rows(), [{ subject: 'a' }, { subject: 'b' }], 'one of the clocks may run ahead')
  await store.dropExpired(nowSeconds + 86_400)
  t.same(await rows(), [{ subject: 'b' }])
})

t.test('an adopted database keeps logouts too, and tells of them', async (t) => {
  const postgres = await startTestPostgres()
  t.teardown(() => postgres.stop())
  const backend = new pg.Client({ connectionString: postgres.url })
  await backend.connect()
  await backend.query(`${backendTables}; ${backendRows}`)
  await backend.end()
  const own = open((await adoptDatabase(t, postgres.url)).gatewayUrl)
  await own.write([logout('adopted', 'a', '', 1)])
  await own.write([logout('adopted', 'a', '', 2)])
  t.match((await own.readSince(0)).logouts, [{ issuer: 'adopted', subject: 'a', at: base + 2 }])
  await own.widenSubjects('adopted', ['a'], 1)
  await own.widenIssuer('adopted', 0)
  await own.dropExpired(Date.now() / 1_000)
  t.match((await own.readSince(0)).logouts, [{ issuer: 'adopted', subject: '', at: base + 2 }])
})
