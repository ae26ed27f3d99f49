import pg from 'pg'
import t, { type Test } from 'tap'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import { runCommand } from '../support/command-line.ts'
import { startTestGateway, until, writeConfiguration } from '../support/gateway.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)

const connect = async (t: Test, url: string): Promise<pg.Client> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  t.teardown(() => client.end())
  return client
}

const owner = await connect(t, world.databaseUrl)

async function createDatabase(name: string): Promise<string> {
  await owner.query(`create database ${name}`)
  const url = new URL(world.databaseUrl)
  url.pathname = `/${name}`
  return url.href
}

/** For a busy machine. */
const patience = { connectTimeoutMs: 10_000, queryTimeoutMs: 10_000 }

async function startOn(t: Test, url: string) {
  const gateway = await startTestGateway(t, { world, settings: { database: { url, ...patience } } })
  const ask = async () => {
    const answer = await fetch(`${gateway.admin}/readyz`)
    return { ...((await answer.json()) as Readiness), status: answer.status }
  }
  const becomesReady = async (): Promise<void> => {
    let last = ''
    const isReady = async (): Promise<boolean> => {
      const answer = await ask()
      last = JSON.stringify(answer)
      return answer.status === 200
    }
    await until(isReady, 'readiness', 20_000).catch(() => {
      throw new Error(`not ready: ${last}`)
    })
  }
  return { ...gateway, ask, becomesReady }
}

type Readiness = Readonly<{ checks: Readonly<Record<string, string>>; causes?: Readonly<Record<string, string>> }>

t.test('an empty database is not ready, says so, and is ready once it is migrated', async (t) => {
  const url = await createDatabase('empty')
  const gateway = await startOn(t, url)
  t.match(await gateway.ask(), {
    status: 503,
    checks: { database: 'ok', schema: 'failing' },
    causes: { schema: 'the database is not migrated: run "sallyport migrate"' },
  })
  const { port } = new URL(gateway.admin)
  const settings = { listeners: { admin: { host: '127.0.0.1', port: Number(port) } } }
  const { code, stderr } = await runCommand(['healthcheck', '--config', writeConfiguration(t, { settings })])
  t.equal(code, 1)
  t.match(stderr, /not ready: .*schema failing \(the database is not migrated: run "sallyport migrate"\)/)
  await migrate(url)
  await gateway.becomesReady()
})

t.test('a schema that is older than the program is not ready', async (t) => {
  const url = await createDatabase('older')
  await migrate(url)
  const client = await connect(t, url)
  await client.query('delete from sallyport_migrations where version = (select max(version) from sallyport_migrations)')
  const { status, causes } = await (await startOn(t, url)).ask()
  t.equal(status, 503)
  t.match(causes?.schema, /the schema has version \d+, and needs \d+: run "sallyport migrate"/)
})

t.test('a schema that is newer than the program is ready: the replicas of a rollout differ', async (t) => {
  const url = await createDatabase('newer')
  await migrate(url)
  const client = await connect(t, url)
  await client.query("insert into sallyport_migrations (version, name) values (999, 'later')")
  t.match(await (await startOn(t, url)).ask(), { status: 200, checks: { schema: 'ok' } })
})

t.test('each right that requests need is part of readiness', async (t) => {
  const url = new URL(await createDatabase('rights'))
  await migrate(url.href)
  const client = await connect(t, url.href)
  await client.query(`create role lean login password 'lean-password';
    grant usage on schema public to lean;
    grant select, insert, update, delete on all tables in schema public to lean;
    grant usage on all sequences in schema public to lean`)
  url.username = 'lean'
  url.password = 'lean-password'
  const gateway = await startOn(t, url.href)
  await gateway.becomesReady()
  for (const [right, table] of [
    ['select', 'auth_access_tokens'],
    ['select', 'organizations'],
    ['insert', 'audit_events'],
    ['insert', 'user_identities'],
    ['delete', 'auth_access_tokens'],
  ]) {
    await client.query(`revoke ${right} on ${table} from lean`)
    const other = await startOn(t, url.href)
    const { status, causes } = await other.ask()
    t.equal(status, 503, `${right} on ${table}`)
    t.match(causes?.schema, `permission denied for table ${table} (42501)`)
    t.notMatch(causes?.schema, /lean/)
    await client.query(`grant ${right} on ${table} to lean`)
    await other.becomesReady()
    await other.drain({ delayMs: 0, timeoutMs: 0 })
  }
})

t.test('a right that is withdrawn while the gateway runs is seen with the first request that it fails', async (t) => {
  const url = new URL(await createDatabase('withdrawn'))
  await migrate(url.href)
  const client = await connect(t, url.href)
  await client.query(`create role leaner login password 'leaner-password';
    grant usage on schema public to leaner;
    grant select, insert, update, delete on all tables in schema public to leaner`)
  url.username = 'leaner'
  url.password = 'leaner-password'
  const gateway = await startOn(t, url.href)
  await gateway.becomesReady()
  await client.query('revoke select on user_identities from leaner')
  const jwt = await world.mint({ sub: 'a-stranger', email: 'stranger@demo.example' })
  const answer = await fetch(`${gateway.public}/users/me`, { headers: { 'x-oauth-access-token': jwt } })
  t.equal(answer.status, 503)
  t.match(await gateway.ask(), { status: 503, checks: { schema: 'failing' } })
})

t.test('a view of an adopted database that takes no writes limits, and does not stop', async (t) => {
  const url = await createDatabase('limited')
  await migrate(url)
  const client = await connect(t, url)
  await client.query(`create or replace view sallyport_directory.user_identities with (security_invoker) as
    select user_id, issuer, subject from user_identities limit 1000000`)
  const readiness = await (await startOn(t, url)).ask()
  t.match(readiness, { status: 200, checks: { schema: 'limited' } })
  t.match(readiness.causes?.schema, /cannot insert into view "user_identities" \(55000\)/)
})
