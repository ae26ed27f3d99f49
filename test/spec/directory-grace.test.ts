import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { startRawUpstream, startTestGateway, type TestGateway, until } from '../support/gateway.ts'
import { type Account, populate } from '../support/population.ts'
import { testRedisServer } from '../support/redis.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { type Serving, startServing } from '../support/serve.ts'
import { leadThrough, startTcpProxy } from '../support/tcp-proxy.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { addAccount, writer } = await populate(t, world)

const upstream = await startRawUpstream(t, (socket) => {
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
})

type Settings = Readonly<Record<string, unknown>>

/** In this process, where no log is looked at. */
const startHere = (t: Test, settings: Settings) =>
  startTestGateway(t, { world, settings, upstreams: { platform: { url: upstream.url }, data: { url: upstream.url } } })

const startAside = (t: Test, settings: Settings) => startServing(t, { world, settings, upstream: upstream.url })

async function startBehind<Started extends TestGateway | Serving>(
  t: Test,
  own: Settings,
  start: (t: Test, settings: Settings) => Promise<Started>,
) {
  const proxy = await startTcpProxy(t, { port: Number(new URL(world.databaseUrl).port) })
  const serving = await start(t, { database: { url: leadThrough(proxy, world.databaseUrl) }, ...own })
  const ask = async ({ headers }: Pick<Account, 'headers'>): Promise<number> =>
    (await call(serving.public, { path: '/datasets', headers })).status
  const breakDown = (): void => {
    proxy.refuse()
    proxy.cut()
  }
  const readMetrics = async (): Promise<string> => (await fetch(`${serving.admin}/metrics`)).text()
  const hears = async () => {
    await until(async () => (await readMetrics()).includes('source_up{source="postgres"} 1'), 'the changes', 20_000)
    // Its callers have used it before the outage.
    await until(async () => (await fetch(`${serving.admin}/readyz`)).status === 200, 'readiness', 20_000)
  }
  const countHeard = async (): Promise<number> => {
    const counts = (await readMetrics()).matchAll(
      /^sallyport_invalidations_received_total\{.*source="postgres".*\} (\d+)$/gm,
    )
    return [...counts].reduce((sum, [, count]) => sum + Number(count), 0)
  }
  /** Adds an account and waits for its messages: a later one would clear the caches. */
  const addHeard = async (name: string): Promise<Account> => {
    const account = await addAccount(name)
    const before = await countHeard()
    // Far more messages than an account has. They come last, in the order of the commits.
    const many = 100
    await writer.query(
      `select pg_notify('sallyport_changes', '{"kind":"agent","id":' || id || '}') from generate_series(1, $1::int) id`,
      [many],
    )
    await until(async () => (await countHeard()) >= before + many, 'the changes of the account')
    return account
  }
  return { ...serving, ask, addHeard, breakDown, mend: proxy.accept, readMetrics, hears }
}

t.test('callers known before go on for the grace, others do not, and it is said', async (t) => {
  const gateway = await startBehind(t, { directory: { graceMs: 600_000 } }, startAside)
  await gateway.hears()
  const known = await gateway.addHeard('known')
  await until(async () => (await gateway.ask(known)) === 200, 'the answer')
  gateway.breakDown()
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  for (let again = 0; again < 20; again += 1) t.equal(await gateway.ask(known), 200)
  t.equal(await gateway.ask({ headers: oauth(world.users.member) }), 503)
  t.equal(await gateway.ask(await addAccount('unknown')), 503)
  const ready = await fetch(`${gateway.admin}/readyz`)
  t.equal(ready.status, 200)
  t.match(await ready.json(), { checks: { database: 'limited' }, causes: { database: /directory\.graceMs/ } })
  t.match(await gateway.readMetrics(), /cache_reads_total\{cache="tokens",result="grace"\} [1-9]/)
  const isSaid = (): boolean => /"level":"warn".*"graceMs":600000.*cached entries answer/.test(gateway.stdout())
  await until(isSaid, 'the line of the log')
  gateway.mend()
  await until(async () => (await gateway.ask({ headers: oauth(world.users.member) })) === 200, 'the recovery', 20_000)
})

testRedisServer(t, 'a change that was heard of ends the grace, even where PostgreSQL cannot be asked', async (t) => {
  const redis = await startRedisServer(t)
  const gateway = await startBehind(t, { directory: { graceMs: 600_000 }, redis: { url: redis.url } }, startHere)
  await gateway.hears()
  await until(async () => (await gateway.readMetrics()).includes('source_up{source="redis"} 1'), 'Redis', 20_000)
  const [revoked, kept] = [await gateway.addHeard('revoked'), await gateway.addHeard('kept')]
  for (const account of [revoked, kept]) await until(async () => (await gateway.ask(account)) === 200, 'the answer')
  gateway.breakDown()
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  t.equal(await gateway.ask(revoked), 200)
  const publisher = new Redis(redis.url)
  t.teardown(() => publisher.disconnect())
  await publisher.publish('sallyport:changes', JSON.stringify({ kind: 'token', id: revoked.tokenId }))
  await until(async () => (await gateway.ask(revoked)) === 503, 'the end of it')
  t.equal(await gateway.ask(kept), 200)
})

t.test('grace is off by default', async (t) => {
  const gateway = await startBehind(t, {}, startHere)
  await gateway.hears()
  const known = await addAccount('default')
  await until(async () => (await gateway.ask(known)) === 200, 'the answer')
  gateway.breakDown()
  await until(async () => (await gateway.ask(known)) === 503, 'the refusal')
  t.equal((await fetch(`${gateway.admin}/readyz`)).status, 503)
})

t.test('no line of the log has the name of the user of the database', async (t) => {
  const url = new URL(world.databaseUrl)
  url.username = 'name-of-the-user'
  url.password = 'wrong'
  const serving = await startServing(t, { world, settings: { database: { url: url.href } } })
  const answer = await call(serving.public, { path: '/datasets', headers: oauth(world.users.member) })
  t.equal(answer.status, 503)
  await until(() => /password authentication failed/.test(serving.stdout()), 'the lines')
  await until(() => /invalidation source lost/.test(serving.stdout()), 'the lines of the listener')
  t.notMatch(serving.stdout() + serving.stderr(), /name-of-the-user/)
})
