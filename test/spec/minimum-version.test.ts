import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import pg from 'pg'
import t, { type Test } from 'tap'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import { runCommand } from '../support/command-line.ts'
import { startTestGateway, until, writeConfiguration } from '../support/gateway.ts'
import { runServe } from '../support/serve.ts'
import { startTestWorld } from '../support/world.ts'

// A program that the ledger calls too old would widen access or break: it must not use the database at all.

const world = await startTestWorld(t)
const asked = /the database asks for a program that knows migration 999, and this one knows \d+: start a newer version/

async function createDatabase(t: Test, name: string, { adopt = false } = {}) {
  const administrator = new pg.Client({ connectionString: world.databaseUrl })
  await administrator.connect()
  await administrator.query(`create database ${name} template template0`).finally(() => administrator.end())
  const url = new URL(world.databaseUrl)
  url.pathname = `/${name}`
  await migrate(url.href, { adopt })
  const client = new pg.Client({ connectionString: url.href })
  await client.connect()
  t.teardown(() => client.end())
  const ledger = adopt ? 'sallyport_directory.sallyport_migrations' : 'sallyport_migrations'
  /** As a migration of a later version does. */
  const raise = async (): Promise<void> => {
    await client.query(`update ${ledger} set minimum_version = 999`)
    await client.query(`insert into ${ledger} (version, name) values (999, 'later')`)
  }
  return { url, client, ledger, raise }
}

/** For a busy machine. */
const patience = { connectTimeoutMs: 10_000, queryTimeoutMs: 10_000 }
const startOn = (t: Test, { href }: URL) =>
  startTestGateway(t, { world, settings: { database: { url: href, ...patience } } })

for (const adopt of [false, true])
  t.test(`a program that the ledger calls too old does not start: ${adopt ? 'adopted' : 'own'}`, async (t) => {
    const { url, raise } = await createDatabase(t, `raised_${adopt}`, { adopt })
    await raise()
    await t.rejects(startOn(t, url), { message: asked })
    const config = writeConfiguration(t, { settings: { database: { url: url.href, ...patience } } })
    const serve = await runCommand(['serve', '--config', config])
    t.match(serve, { code: 1, stderr: asked })
    const list = await runCommand(['tokens', 'list', '--config', config, '--user', '1'])
    t.match(list, { code: 1, stderr: asked }, 'nor does it change anything')
  })

t.test('a running program that the ledger calls too old is not ready', async (t) => {
  const { url, raise } = await createDatabase(t, 'raised_later')
  const gateway = await startOn(t, url)
  await raise()
  const isRefused = async (): Promise<boolean> => {
    const answer = await fetch(`${gateway.admin}/readyz`)
    const { causes } = (await answer.json()) as { causes?: { schema?: string } }
    return answer.status === 503 && asked.test(causes?.schema ?? '')
  }
  await until(isRefused, 'the refusal', 30_000)
})

t.test('a database that answers later ends the process by then', async (t) => {
  const { url, raise } = await createDatabase(t, 'raised_unseen')
  await raise()
  const forwarder = createServer((socket) => {
    const server = connect(Number(url.port), url.hostname)
    socket.pipe(server).pipe(socket)
    socket.on('error', () => server.destroy())
    server.on('error', () => socket.destroy())
  })
  await once(forwarder.listen(0, '127.0.0.1'), 'listening')
  const { port } = forwarder.address() as { port: number }
  await new Promise((resolve) => forwarder.close(resolve))
  const away = new URL(url)
  away.hostname = '127.0.0.1'
  away.port = String(port)
  const settings = { database: { url: away.href, ...patience }, log: { level: 'info' } }
  const serve = runServe(t, { settings })
  await until(() => serve.stdout().includes('"msg":"listening"'), 'a start without the database', 60_000)
  await once(forwarder.listen(port, '127.0.0.1'), 'listening')
  t.teardown(() => forwarder.close())
  t.equal(await serve.ended, 1)
  t.match(serve.stdout() + serve.stderr(), asked)
})

t.test('the ledger is obeyed off the search path, and one that may not be read is refused', async (t) => {
  const { url, client, ledger, raise } = await createDatabase(t, 'raised_elsewhere')
  await client.query(`create role off_path login password 'off-path'; alter role off_path set search_path = pg_catalog;
    grant select, insert, update, delete on all tables in schema public to off_path;
    grant usage on all sequences in schema public to off_path`)
  url.username = 'off_path'
  url.password = 'off-path'
  await client.query(
    `grant usage on schema public to off_path; revoke insert, update, delete on ${ledger} from off_path`,
  )
  const gateway = await startOn(t, url)
  await until(async () => (await fetch(`${gateway.admin}/readyz`)).status === 200, 'readiness', 20_000)
  await raise()
  await t.rejects(startOn(t, url), { message: asked })
  await client.query(`revoke select on ${ledger} from public, off_path`)
  await t.rejects(startOn(t, url), { message: /public\.sallyport_migrations may not be read: grant select on it/ })
})
