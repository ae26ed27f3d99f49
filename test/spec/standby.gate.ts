import t, { type Test } from 'tap'
import { startIssuer } from '../../demo/issuer.ts'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import { call } from '../support/client.ts'
import { startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { type Account, populate } from '../support/population.ts'
import { oauth } from '../support/world.ts'
import { startReplication } from './standby.ts'

const { primary, standby, pauseReplay, resumeReplay, untilReplayed, stopPrimary } = await startReplication(t)
await migrate(primary.url)
const { rows } = await primary.administrator.query<{ id: number }>(
  `insert into organizations (name, slug, account_type) values ('acme', 'acme', 'enterprise') returning id`,
)
const acme = { id: rows[0]?.id ?? 0, accountType: 'enterprise' as const }
const { addAccount, writer, insert, assign } = await populate(t, {
  databaseUrl: primary.url,
  organizations: { acme, globex: acme, initech: acme },
})
const issuer = await startIssuer({ audience: 'sallyport-demo' })
t.teardown(() => issuer.stop())

const upstream = await startRawUpstream(t, (socket) => {
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
})

type Settings = Readonly<Record<string, unknown>>

async function startOn(t: Test, database: Settings) {
  const gateway = await startTestGateway(t, {
    settings: {
      database: { connectTimeoutMs: 5_000, queryTimeoutMs: 5_000, ...database },
      issuers: [{ issuer: issuer.issuer, audience: 'sallyport-demo' }],
    },
    upstreams: { platform: { url: upstream.url } },
  })
  const ask = async ({ headers }: Pick<Account, 'headers'>): Promise<number> =>
    (await call(gateway.public, { path: '/datasets', headers })).status
  const metrics = async (): Promise<string> => (await fetch(`${gateway.admin}/metrics`)).text()
  const hears = () =>
    until(async () => (await metrics()).includes('invalidation_source_up{source="postgres"} 1'), 'the changes', 20_000)
  const settled = (account: Account, status: number) =>
    until(async () => (await ask(account)) === status, `a ${status}`, 20_000)
  return { ...gateway, ask, metrics, hears, settled }
}

/** On the primary, and on the standby. */
async function addReplicated(name: string): Promise<Account> {
  const account = await addAccount(name)
  await untilReplayed()
  return account
}

const revoke = ({ tokenId }: Account) => writer.query('delete from auth_access_tokens where id = $1', [tokenId])

async function watch(ask: () => Promise<number>, forMs: number): Promise<readonly (readonly [number, number])[]> {
  const startedMs = performance.now()
  const seen: (readonly [number, number])[] = []
  while (performance.now() - startedMs < forMs) {
    const atMs = performance.now() - startedMs
    seen.push([await ask(), atMs])
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return seen
}

t.test('a revocation that a standby does not show yet is not overlooked for longer than two seconds', async (t) => {
  const gateway = await startOn(t, { url: standby.url, listenUrl: primary.url })
  await gateway.hears()
  const account = await addReplicated('lagging')
  await gateway.settled(account, 200)
  await pauseReplay()
  t.teardown(resumeReplay)
  await revoke(account)
  const seen = await watch(() => gateway.ask(account), 6_000)
  t.same(new Set(seen.map(([status]) => status).filter((status) => status !== 200)), new Set([503]), 'never a 401')
  // The bound is a second behind and a second of caching; the rest is for a busy machine.
  t.same(
    seen.filter(([status, atMs]) => status === 200 && atMs > 4_000),
    [],
    'nothing is served later',
  )
  t.match(await (await fetch(`${gateway.admin}/readyz`)).json(), {
    checks: { database: 'failing' },
    causes: { database: 'PostgreSQL at database.url is a standby, and too far behind its primary' },
  })
  await resumeReplay()
  await gateway.settled(account, 401)
})

t.test('a standby that follows serves, and a revocation is in force within a second or two', async (t) => {
  const gateway = await startOn(t, { url: standby.url, listenUrl: primary.url })
  await gateway.hears()
  const account = await addReplicated('following')
  await gateway.settled(account, 200)
  const busy = await addReplicated('busy')
  for (let again = 0; again < 30; again += 1) {
    await writer.query('update users set username = $1 where id = $2', [`n${again}`, busy.id])
    t.equal(await gateway.ask(account), 200)
  }
  await revoke(account)
  await until(async () => (await gateway.ask(account)) === 401, 'the refusal', 4_000)
})

t.test('an idle standby is never taken for one that lags', async (t) => {
  const gateway = await startOn(t, { url: standby.url, listenUrl: primary.url })
  await gateway.hears()
  const account = await addReplicated('idle')
  // Fills the rest of a WAL page, so that the primary names a position behind the next page's header.
  await primary.administrator.query('select pg_switch_wal()')
  await untilReplayed()
  await gateway.settled(account, 200)
  const seen = await watch(() => gateway.ask(account), 3_000)
  t.same(new Set(seen.map(([status]) => status)), new Set([200]))
})

t.test('minting and first logins are 503 directory_read_only, and readiness names the standby', async (t) => {
  const gateway = await startOn(t, { url: standby.url, listenUrl: primary.url })
  await gateway.hears()
  const admin = await insert("users (email, user_type) values ('admin@demo.example', 'human')")
  await insert('user_identities (user_id, issuer, subject) values ($1, $2, $3)', [admin, issuer.issuer, 'admin'])
  await assign(admin, acme.id, 'org-admin')
  const account = await addReplicated('to-mint-for')
  const mintJwt = async (sub: string) => {
    const body = JSON.stringify({ sub, email: `${sub}@demo.example` })
    const answer = await fetch(issuer.mintUrl, { method: 'POST', body })
    return ((await answer.json()) as { jwt: string }).jwt
  }
  const mint = await call(gateway.public, {
    method: 'POST',
    path: `/organizations/${acme.id}/users/${account.id}/tokens`,
    headers: { ...oauth({ jwt: await mintJwt('admin') }), 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'x', scope: 'api-key' }),
  })
  t.match([mint.status, mint.json()], [503, { error: { code: 'directory_read_only' } }])
  const login = await call(gateway.public, { path: '/users/me', headers: oauth({ jwt: await mintJwt('newcomer') }) })
  t.match([login.status, login.json()], [503, { error: { code: 'directory_read_only' } }])
  const ready = await fetch(`${gateway.admin}/readyz`)
  t.equal(ready.status, 200, 'the others are served')
  t.match(await ready.json(), {
    checks: { database: 'ok', schema: 'ok', writes: 'limited' },
    causes: { writes: /standby.*directory_read_only/ },
  })
  t.match(await gateway.metrics(), /sallyport_database_standby 1\n/)
})

t.test('an answer of one server is not kept by what another one tells', async (t) => {
  const other = await startReplication(t)
  await migrate(other.primary.url)
  // Notifications come from a server that answers no queries.
  const gateway = await startOn(t, { url: primary.url, listenUrl: other.primary.url })
  await gateway.hears()
  const account = await addAccount('elsewhere')
  await gateway.settled(account, 200)
  await revoke(account)
  await until(async () => (await gateway.ask(account)) === 401, 'the refusal', 4_000)
})

t.test('answers of the server that tells of changes are kept', async (t) => {
  const gateway = await startOn(t, { url: primary.url, listenUrl: primary.url })
  await gateway.hears()
  const account = await addAccount('kept')
  await gateway.settled(account, 200)
  const readTokens = async () =>
    Number(/sallyport_cache_reads_total\{cache="tokens",result="miss"\} (\d+)/.exec(await gateway.metrics())?.[1])
  const before = await readTokens()
  const seen = await watch(() => gateway.ask(account), 4_000)
  t.same(new Set(seen.map(([status]) => status)), new Set([200]))
  // A stall of a second may cost one request; without any proof it would be four.
  t.ok((await readTokens()) - before <= 1, 'it was not looked up again')
})

t.test('a role that may not ask for the system is served, and believes a standby for a second', async (t) => {
  await primary.administrator.query('revoke execute on function pg_control_system() from public')
  await untilReplayed()
  t.teardown(async () => {
    await primary.administrator.query('grant execute on function pg_control_system() to public')
  })
  const account = await addReplicated('unknown-system')
  for (const database of [{ url: standby.url, listenUrl: primary.url }, { url: primary.url }]) {
    const gateway = await startOn(t, database)
    await gateway.hears()
    await gateway.settled(account, 200)
  }
  const gateway = await startOn(t, { url: standby.url, listenUrl: primary.url })
  await gateway.hears()
  await gateway.settled(account, 200)
  await revoke(account)
  await until(async () => (await gateway.ask(account)) === 401, 'the refusal', 4_000)
})

t.test('a standby whose primary is gone goes on serving, and is asked for writes once it is promoted', async (t) => {
  const gateway = await startOn(t, { url: standby.url, listenUrl: primary.url })
  await gateway.hears()
  const account = await addReplicated('survivor')
  await gateway.settled(account, 200)
  await writer.end()
  await stopPrimary()
  await until(
    async () => (await gateway.metrics()).includes('invalidation_source_up{source="postgres"} 0'),
    'the loss',
    20_000,
  )
  await gateway.settled(account, 200)
  await standby.administrator.query('select pg_promote()')
  await until(
    async () => (await (await fetch(`${gateway.admin}/readyz`)).text()).includes('"writes":"ok"'),
    'the promotion',
    20_000,
  )
})
