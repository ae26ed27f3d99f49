import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { type Call, call } from '../support/client.ts'
import { startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { type Account, populate } from '../support/population.ts'
import { startRedis, testRedis, testRedisServer } from '../support/redis.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { bearer, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { addAccount, writer } = await populate(t, world)
const { stale, healthy } = world.clusters
const { robot, robotAdmin } = world.serviceAccounts
const boundMs = 2_000

const upstream = await startRawUpstream(t, (socket) => {
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
})
await writer.query('update clusters set base_url = $1', [upstream.url])

/** A gateway with this Redis, and the proxy of its notifications from PostgreSQL. */
async function startWith(t: Test, redis: Readonly<Record<string, unknown>>) {
  const listenUrl = new URL(world.databaseUrl)
  const notifications = await startTcpProxy(t, { port: Number(listenUrl.port) })
  listenUrl.port = String(notifications.port)
  const gateway = await startTestGateway(t, {
    world,
    settings: { redis, database: { url: world.databaseUrl, listenUrl: listenUrl.href, ...world.patience } },
    upstreams: { platform: { url: upstream.url } },
  })
  const send = async (request: Call): Promise<number> => (await call(gateway.public, request)).status
  const isUp = async (source: string): Promise<boolean> =>
    (await (await fetch(`${gateway.admin}/metrics`)).text()).includes(
      `sallyport_invalidation_source_up{source="${source}"} 1`,
    )
  await until(() => isUp('redis'), 'Redis')
  await until(() => isUp('postgres'), 'the notifications')
  return {
    notifications,
    send,
    isUp,
    use: ({ headers }: Account) => send({ path: '/datasets', headers }),
    reach: (cluster: number) => send({ path: `/clusters/${cluster}/proxy/x`, headers: bearer(robot.apiKey) }),
  }
}

function connectRedis(t: Test, url: string): Redis {
  const redis = new Redis(url)
  redis.on('error', () => {})
  t.teardown(() => redis.disconnect())
  return redis
}

/** A revocation for which PostgreSQL sends no message. */
async function revokeSilently({ tokenId }: Account): Promise<void> {
  await writer.query('alter table auth_access_tokens disable trigger sallyport_delete')
  await writer.query('delete from auth_access_tokens where id = $1', [tokenId])
  await writer.query('alter table auth_access_tokens enable trigger sallyport_delete')
}

/**
 * An account whose revocation sends no message, so that the entry stays held. After a stall of a second no entry is
 * held, so the test tries again.
 */
async function revokeUnheard(
  name: string,
  use: (account: Account) => Promise<number>,
  heldForMs = 0,
): Promise<Account> {
  for (let attempt = 0; attempt < 10; attempt += 1) {
    const account = await addAccount(`${name}-${attempt}`)
    if ((await use(account)) !== 200) throw new Error(`${name} is refused from the start`)
    await revokeSilently(account)
    await new Promise((resolve) => setTimeout(resolve, heldForMs))
    if ((await use(account)) === 200) return account
  }
  throw new Error(`${name} was never held`)
}

testRedis(t, 'a change that a backend publishes is known at once', async () => {
  const { url } = await startRedis(t)
  const { use } = await startWith(t, { url })
  const redis = connectRedis(t, url)
  for (const message of ['token', 'user', 'everything', 'nonsense']) {
    const account = await revokeUnheard(`published-${message}`, use)
    const ids: Record<string, number> = { token: account.tokenId, user: account.id }
    await redis.publish('sallyport:changes', JSON.stringify({ kind: message, id: ids[message] }))
    await until(async () => (await use(account)) === 401, message, boundMs)
  }
})

testRedis(t, 'a change that the gateway makes is published', async (t) => {
  const { url } = await startRedis(t)
  const { send } = await startWith(t, { url })
  const heard: string[] = []
  const redis = connectRedis(t, url)
  await redis.subscribe('sallyport:changes')
  redis.on('message', (_channel, message) => heard.push(message))
  const account = await addAccount('revoked-here')
  const path = `/organizations/${world.organizations.acme.id}/users/${account.id}/tokens/${account.tokenId}`
  t.equal(await send({ method: 'DELETE', path, headers: bearer(robotAdmin.apiSecret) }), 200)
  await until(() => heard.length > 0, 'the message')
  t.same(heard, [JSON.stringify({ kind: 'token', id: account.tokenId })])
})

testRedis(t, 'the newer of two heartbeats counts, and malformed ones are ignored', async (t) => {
  const { url } = await startRedis(t)
  const { reach } = await startWith(t, { url })
  const redis = connectRedis(t, url)
  const key = `sallyport:cluster:${stale}:heartbeat`
  t.teardown(() => redis.del(key))
  t.equal(await reach(stale), 503, 'the column is a day old')
  await redis.set(key, String(Date.now()))
  await until(async () => (await reach(stale)) === 200, 'the heartbeat', boundMs)
  const none = ['', 'now', '-1', '1e18', String(Date.now() - 120_000), String(Date.now() + 86_400_000), '9'.repeat(15)]
  for (const value of none) {
    await redis.set(key, value)
    await until(async () => (await reach(stale)) === 503, `"${value}"`, boundMs)
  }
  await redis.set(`sallyport:cluster:${healthy}:heartbeat`, String(Date.now() - 120_000))
  t.teardown(() => redis.del(`sallyport:cluster:${healthy}:heartbeat`))
  t.equal(await reach(healthy), 200, 'the column is newer')
})

testRedisServer(t, 'a frozen, flushed or killed Redis fails no request', async (t) => {
  const redis = await startRedisServer(t)
  const { use, reach, isUp } = await startWith(t, { url: redis.url })
  const expectService = async (what: string): Promise<void> => {
    for (let round = 0; round < 10; round += 1) {
      const account = await addAccount(`${what}-${round}`)
      t.equal(await use(account), 200, what)
      t.equal(await reach(healthy), 200, what)
      await writer.query('delete from auth_access_tokens where id = $1', [account.tokenId])
      await until(async () => (await use(account)) === 401, `the refusal, ${what}`, boundMs)
    }
  }
  await expectService('well')
  await redis.flush()
  await expectService('flushed')
  redis.freeze()
  await expectService('frozen')
  await until(async () => !(await isUp('redis')), 'the gauge')
  redis.thaw()
  await until(() => isUp('redis'), 'the connection again')
  await redis.kill()
  await expectService('killed')
  t.notOk(await isUp('redis'))
  await redis.restart()
  await until(() => isUp('redis'), 'the connection again')
  await expectService('restarted')
})

testRedisServer(t, 'Redis alone is trusted only where it hears every writer', async (t) => {
  const redis = await startRedisServer(t)
  for (const allWritersPublish of [false, true]) {
    const { use, notifications, isUp } = await startWith(t, { url: redis.url, allWritersPublish })
    notifications.refuse()
    notifications.cut()
    await until(async () => !(await isUp('postgres')), 'the loss')
    // Longer than any entry is held without a proof.
    const account = await revokeUnheard(`trust-${allWritersPublish}`, use, allWritersPublish ? 1_500 : 0)
    if (!allWritersPublish) await until(async () => (await use(account)) === 401, 'the end of unproven facts', boundMs)
    // With both sources down entries expire soon.
    redis.freeze()
    await until(async () => (await use(account)) === 401, 'the refusal', 5_000)
    redis.thaw()
    await until(() => isUp('redis'), 'the connection again')
  }
})
