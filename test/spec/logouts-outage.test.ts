import t from 'tap'
import { call } from '../support/client.ts'
import { startTestGateway, type TestGateway, until } from '../support/gateway.ts'
import { prepareLogouts, push, statusOf } from '../support/logout-fixture.ts'
import { startRedis, testRedis } from '../support/redis.ts'
import { startReplica } from '../support/replicas.ts'
import { startTestWorld } from '../support/world.ts'
import { startBehindProxy, untilHears } from './cut-database.ts'

const world = await startTestWorld(t)
const { issuer, database, addSubject, signLogout, settings } = await prepareLogouts(t, world)

const isStored = async (subject: string): Promise<boolean> =>
  (await database.query('select from logouts where subject = $1', [subject])).rows.length === 1

const readUnstored = async ({ admin }: TestGateway): Promise<string | undefined> =>
  /sallyport_logouts_unstored (\d+)/.exec((await call(admin, { path: '/metrics' })).text)?.[1]

t.test('a logout that cannot be stored counts at once, is 503, and is stored once the database is back', async (t) => {
  const { gateway, stop, start } = await startBehindProxy(t, world, settings)
  const subject = await addSubject()
  const [jwt, other] = [await issuer.sign({ sub: subject }), await issuer.sign({ sub: await addSubject() })]
  for (const each of [jwt, other]) t.equal(await statusOf(gateway, each), 200)
  stop()
  const told = await push(gateway, await signLogout({ sub: subject }))
  t.match(told, { status: 503, text: '{"error":"temporarily_unavailable"}\n', headers: { 'retry-after': '1' } })
  t.equal(await statusOf(gateway, jwt), 401)
  t.equal(await statusOf(gateway, other), 200, 'within the grace')
  t.equal(await readUnstored(gateway), '1')
  t.notOk(await isStored(subject))
  start()
  await until(() => isStored(subject), 'the row')
  await until(async () => (await readUnstored(gateway)) === '0', 'the metric')
  t.equal((await push(gateway, await signLogout({ sub: subject }))).status, 200)
})

t.test('without fresh knowledge of logouts a JWT is 503, and served again once the database is back', async (t) => {
  const { gateway, stop, start } = await startBehindProxy(t, world, { ...settings, directory: { graceMs: 0 } })
  const jwt = await issuer.sign({ sub: await addSubject() })
  t.equal(await statusOf(gateway, jwt), 200)
  stop()
  await until(async () => (await statusOf(gateway, jwt)) === 503, 'the refusal')
  start()
  await until(async () => (await statusOf(gateway, jwt)) === 200, 'the end of the outage')
})

t.test('a failing read of logouts alone is 503, while users can be read', async (t) => {
  const gateway = await startTestGateway(t, { world, settings })
  const jwt = await issuer.sign({ sub: await addSubject() })
  t.equal(await statusOf(gateway, jwt), 200)
  await database.query('alter view sallyport_directory.logouts rename to hidden')
  // A change of which the replica hears, and which it cannot read.
  await database.query("select pg_notify('sallyport_changes', $1)", ['{"kind":"logout","id":0}'])
  await until(async () => (await statusOf(gateway, jwt)) === 503, 'the refusal')
  await database.query('alter view sallyport_directory.hidden rename to logouts')
  await until(async () => (await statusOf(gateway, jwt)) === 200, 'the end of the failure')
})

testRedis(t, 'while the database is down, Redis carries a logout to the other replicas', async (t) => {
  const redis = { url: (await startRedis(t)).url }
  const pair = await Promise.all([
    startBehindProxy(t, world, { ...settings, redis }),
    startBehindProxy(t, world, { ...settings, redis }),
  ])
  const [one, other] = pair.map(({ gateway }) => gateway) as [TestGateway, TestGateway]
  const subject = await addSubject()
  const jwt = await issuer.sign({ sub: subject })
  for (const { gateway } of pair) {
    await untilHears(gateway, 'redis')
    t.equal(await statusOf(gateway, jwt), 200)
  }
  for (const { stop } of pair) stop()
  // An issuer sends again, and Redis may have been too slow for the first.
  const isRefused = async (): Promise<boolean> => {
    t.equal((await push(one, await signLogout({ sub: subject }))).status, 503)
    return (await statusOf(other, jwt)) === 401
  }
  await until(isRefused, 'the refusal')
  for (const { start } of pair) start()
  await until(() => isStored(subject), 'the row')
})

testRedis(t, 'a message of Redis without a valid signature ends nothing', async (t) => {
  const { url } = await startRedis(t)
  const gateway = await startTestGateway(t, { world, settings: { ...settings, redis: { url } } })
  const { Redis } = await import('ioredis')
  const publisher = new Redis(url)
  t.teardown(() => publisher.disconnect())
  const [subject, ended] = [await addSubject(), await addSubject()]
  const [jwt, gone] = [await issuer.sign({ sub: subject }), await issuer.sign({ sub: ended })]
  t.equal(await statusOf(gateway, jwt), 200)
  const tell = (token: string) =>
    publisher.publish('sallyport:changes', JSON.stringify({ kind: 'logout-token', token }))
  const forged = `${(await signLogout({ sub: subject })).slice(0, -4)}AAAA`
  const good = await signLogout({ sub: ended })
  await until(async () => {
    await tell(forged)
    await tell(good)
    return (await statusOf(gateway, gone)) === 401
  }, 'the good one')
  t.equal(await statusOf(gateway, jwt), 200)
})

t.test('each worker takes logouts, and all workers enforce them', async (t) => {
  const replica = await startReplica(t, { world, settings: { ...settings, workers: 2 } })
  const subject = await addSubject()
  const jwt = await issuer.sign({ sub: subject })
  for (let count = 0; count < 8; count += 1) t.equal(await statusOf(replica, jwt), 200)
  for (let count = 0; count < 4; count += 1)
    t.equal((await push(replica, await signLogout({ sub: subject }))).status, 200)
  await until(async () => {
    const statuses = await Promise.all(Array.from({ length: 8 }, () => statusOf(replica, jwt)))
    return statuses.every((status) => status === 401)
  }, 'the refusals')
  await until(() => replica.readLog().includes('logout stored'), 'the line of the log')
  t.notMatch(replica.readLog(), subject, 'no log names the subject')
  t.equal(await replica.stop(), 0)
  const again = await startTestGateway(t, { world, settings })
  t.equal(await statusOf(again, jwt), 401, 'after a restart')
})
