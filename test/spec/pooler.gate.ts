import pg from 'pg'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { runCommand } from '../support/command-line.ts'
import { startRawUpstream, startTestGateway, until, writeConfiguration } from '../support/gateway.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { type Account, populate } from '../support/population.ts'
import { startServing } from '../support/serve.ts'
import { oauth, startTestWorld } from '../support/world.ts'
import { lackOf, type PgBouncer, type PoolerSettings, pgbouncers, startPgBouncer } from './pgbouncer.ts'

const world = await startTestWorld(t)
const { addAccount, writer } = await populate(t, world)
const { robot } = world.serviceAccounts
const tokensPath = `/organizations/${world.organizations.acme.id}/users/${robot.id}/tokens`

const upstream = await startRawUpstream(t, (socket) => {
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
})

type Settings = Readonly<Record<string, unknown>>

/** A gateway whose queries go through a pooler, and whose notifications come from the server itself. */
async function startPooled(t: Test, pgbouncer: PgBouncer, settings: Settings, pooler?: PoolerSettings) {
  const url = await startPgBouncer(t, pgbouncer, world.databaseUrl, pooler)
  const gateway = await startTestGateway(t, {
    world,
    settings: { database: { url, listenUrl: world.databaseUrl, connectTimeoutMs: 5_000, ...settings } },
    upstreams: { platform: { url: upstream.url } },
  })
  const ask = async ({ headers }: Pick<Account, 'headers'>): Promise<number> =>
    (await call(gateway.public, { path: '/datasets', headers })).status
  const metrics = async (): Promise<string> => (await fetch(`${gateway.admin}/metrics`)).text()
  return { ...gateway, ask, metrics }
}

/** One after another: a connection of pg runs one statement at a time. */
async function addAccounts(name: string): Promise<readonly Account[]> {
  const accounts: Account[] = []
  for (let index = 0; index < 40; index += 1) accounts.push(await addAccount(`${name}-${index}`))
  return accounts
}

async function countRunning(): Promise<number> {
  const { rows } = await writer.query<{ count: number }>(
    `select count(*)::int as count from pg_stat_activity
      where state = 'active' and datname = current_database() and query like '%sallyport_directory%' and pid <> pg_backend_pid()`,
  )
  return rows[0]?.count ?? 0
}

pgbouncers.forEach((pgbouncer, at) => {
  const pooled = { pooler: 'transaction' }
  testUnlessLacking(
    t,
    pgbouncer.name,
    async (t) => {
      t.test('callers that come together are served through transaction pooling', async (t) => {
        const { ask, metrics } = await startPooled(t, pgbouncer, pooled)
        const accounts = await addAccounts(`together-${at}`)
        for (let round = 0; round < 3; round += 1) {
          t.same(new Set(await Promise.all(accounts.map(ask))), new Set([200]))
          // Clears the caches, so that each entry is looked up again.
          await writer.query('update users set username = username || $1 where true', ['x'])
        }
        t.ok((await metrics()).includes('sallyport_database_errors_total{kind="statement"} 0'))
      })

      t.test('a mint and a revocation go through, and a revocation beside the gateway is heard', async (t) => {
        const { public: origin, ask } = await startPooled(t, pgbouncer, pooled)
        const headers = { ...oauth(world.users.admin), 'content-type': 'application/json' }
        const body = JSON.stringify({ name: `pooled-${at}`, scope: 'api-key' })
        const minted = await call(origin, { method: 'POST', path: tokensPath, headers, body })
        t.equal(minted.status, 201)
        const account = await addAccount(`revoked-${at}`)
        t.equal(await ask(account), 200)
        await writer.query('delete from auth_access_tokens where id = $1', [account.tokenId])
        await until(async () => (await ask(account)) === 401, 'the refusal')
      })

      t.test('a statement that takes too long is ended by the server as well', async (t) => {
        const { ask } = await startPooled(t, pgbouncer, { ...pooled, queryTimeoutMs: 300 })
        const account = await addAccount(`slow-${at}`)
        const locker = new pg.Client({ connectionString: world.databaseUrl })
        await locker.connect()
        t.teardown(() => locker.end())
        await locker.query('begin')
        await locker.query('lock table organizations')
        t.equal(await ask(account), 503)
        await until(async () => (await countRunning()) === 0, 'the end of the statement')
        await locker.query('rollback')
        await until(async () => (await ask(account)) === 200, 'the recovery')
      })

      t.test('without the setting the refusal of startup parameters is named, in the log too', async (t) => {
        const url = await startPgBouncer(t, pgbouncer, world.databaseUrl)
        const settings = { database: { url, listenUrl: world.databaseUrl } }
        const sentence = /connection pooler refuses startup parameters; set database\.pooler to transaction/
        const file = writeConfiguration(t, { world, settings })
        const { code, stderr } = await runCommand(['clusters', 'list', '--config', file])
        t.equal(code, 1)
        t.match(stderr, sentence)
        const serving = await startServing(t, { world, settings })
        for (let again = 0; again < 3; again += 1)
          t.equal((await call(serving.public, { path: '/datasets', headers: oauth(world.users.member) })).status, 503)
        const isLine = ({ msg }: { msg?: unknown }): boolean => msg === 'connection pooler detected'
        await until(() => serving.log().some(isLine), 'the line')
        t.equal(serving.log().filter(isLine).length, 1, 'once')
        t.match(serving.log().find(isLine), { level: 'error', error: { message: sentence } })
      })

      t.test('named statements behind a pooler that ignores the parameter are named where they collide', async (t) => {
        const url = await startPgBouncer(t, pgbouncer, world.databaseUrl, {
          ignore_startup_parameters: 'statement_timeout',
          // Two connections of the gateway share the one of the server, so the second finds the first one's names.
          default_pool_size: 1,
          // The newer PgBouncer tracks prepared statements unless it is told not to.
          ...(pgbouncer.followsStatements && { max_prepared_statements: 0 }),
        })
        const serving = await startServing(t, {
          world,
          settings: { database: { url, listenUrl: world.databaseUrl } },
          upstream: upstream.url,
        })
        const accounts = await addAccounts(`collide-${at}`)
        await until(async () => {
          // Clears the caches, since a lookup needs a second connection only while another is under way.
          await writer.query('update users set username = username || $1 where true', ['x'])
          const answers = accounts.map(({ headers }) => call(serving.public, { path: '/datasets', headers }))
          return (await Promise.all(answers)).some(({ status }) => status === 503)
        }, 'lookups that fail')
        await until(() => serving.log().some(({ msg }) => msg === 'connection pooler detected'), 'the line')
        t.match(serving.stdout(), /prepared statements are lost or mixed up.*set database\.pooler to transaction/)
      })

      if (pgbouncer.followsStatements)
        t.test('a pooler that follows prepared statements serves without the setting', async (t) => {
          const settings = { ignore_startup_parameters: 'statement_timeout', max_prepared_statements: 100 }
          const { ask } = await startPooled(t, pgbouncer, {}, settings)
          const accounts = await addAccounts('followed')
          t.same(new Set(await Promise.all(accounts.map(ask))), new Set([200]))
        })

      t.test('session pooling serves with the same setting', async (t) => {
        const { ask } = await startPooled(t, pgbouncer, pooled, { pool_mode: 'session', default_pool_size: 20 })
        const accounts = await addAccounts(`session-${at}`)
        t.same(new Set(await Promise.all(accounts.map(ask))), new Set([200]))
      })

      t.test('changes are not listened for through a transaction pooler, which is said once', async (t) => {
        const url = await startPgBouncer(t, pgbouncer, world.databaseUrl)
        const serving = await startServing(t, {
          world,
          settings: { database: { url, pooler: 'transaction' } },
          upstream: upstream.url,
        })
        const sentence = /database listener disabled behind a transaction pooler; set database\.listenUrl/g
        const tellings = (): number => serving.stdout().match(sentence)?.length ?? 0
        await until(() => tellings() > 0, 'the line')
        const account = await addAccount(`unheard-${at}`)
        const ask = async () => (await call(serving.public, { path: '/datasets', headers: account.headers })).status
        t.equal(await ask(), 200)
        t.match(
          await (await fetch(`${serving.admin}/metrics`)).text(),
          'sallyport_invalidation_source_up{source="postgres"} 0',
        )
        await writer.query('delete from auth_access_tokens where id = $1', [account.tokenId])
        await until(async () => (await ask()) === 401, 'the refusal, within the second that a fact is believed')
        serving.child.kill('SIGTERM')
        await serving.ended
        t.equal(tellings(), 1, 'once')
      })

      t.test('commands work through a pooler', async (t) => {
        const url = await startPgBouncer(t, pgbouncer, world.databaseUrl)
        const file = writeConfiguration(t, { world, settings: { database: { url, ...pooled } } })
        for (const command of [['clusters', 'list'], ['directory', 'check', '--try-writes'], ['migrate']])
          t.match(await runCommand([...command, '--config', file]), { code: 0 }, command.join(' '))
      })
    },
    lackOf(pgbouncer),
  )
})
