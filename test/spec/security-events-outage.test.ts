import t from 'tap'
import { startTestGateway, type TestGateway, until } from '../support/gateway.ts'
import { prepareLogouts, statusOf } from '../support/logout-fixture.ts'
import { startRedis, testRedis } from '../support/redis.ts'
import { eventTypes, pushEvent, startTransmitter, withTransmitter } from '../support/transmitter.ts'
import { startTestWorld } from '../support/world.ts'
import { startBehindProxy, untilHears } from './cut-database.ts'

const world = await startTestWorld(t)
const fixture = await prepareLogouts(t, world)
const { issuer, database, addSubject } = fixture
const transmitter = await startTransmitter(t)
const settings = withTransmitter(fixture, transmitter)

const tell = (subject: string): Promise<string> =>
  transmitter.tell(eventTypes.accountDisabled, { format: 'iss_sub', iss: issuer.issuer, sub: subject })

const countStored = async (subjects: readonly string[]): Promise<number> =>
  (await database.query('select from logouts where subject = any ($1)', [subjects])).rows.length

t.test('an outage of the database loses no event of a transmitter that sends again', async (t) => {
  const { gateway, stop, start } = await startBehindProxy(t, world, settings)
  const subjects = await Promise.all(Array.from({ length: 20 }, addSubject))
  const jwts = await Promise.all(subjects.map((sub) => issuer.sign({ sub })))
  for (const jwt of jwts) t.equal(await statusOf(gateway, jwt), 200)
  let unsent = await Promise.all(subjects.map(tell))
  const sendAll = async (): Promise<readonly number[]> => {
    const answers = await Promise.all(unsent.map((token) => pushEvent(gateway, token)))
    unsent = unsent.filter((_, index) => answers[index]?.status !== 202)
    return answers.map(({ status }) => status)
  }
  stop()
  t.same(new Set(await sendAll()), new Set([503]), 'none is acknowledged before it is stored')
  t.equal(unsent.length, 20)
  for (const jwt of jwts) t.equal(await statusOf(gateway, jwt), 401, 'and each counts at once')
  t.equal(await countStored(subjects), 0)
  start()
  await until(async () => {
    await sendAll()
    return unsent.length === 0
  }, 'the acknowledgements')
  t.equal(await countStored(subjects), 20)
})

t.test('an event is stored before its answer', async (t) => {
  const gateway = await startTestGateway(t, { world, settings })
  for (let count = 0; count < 10; count += 1) {
    const subject = await addSubject()
    t.equal((await pushEvent(gateway, await tell(subject))).status, 202)
    t.equal(await countStored([subject]), 1)
  }
})

t.test('without keys of its transmitter an event is 503, and good once they come', async (t) => {
  const own = await startTransmitter(t)
  own.fail(true)
  const gateway = await startTestGateway(t, { world, settings: withTransmitter(fixture, own) })
  const subject = await addSubject()
  const token = await own.tell(eventTypes.accountDisabled, { format: 'iss_sub', iss: issuer.issuer, sub: subject })
  const refused = await pushEvent(gateway, token)
  t.match(refused, { status: 503, headers: { 'retry-after': '1' } })
  t.equal(await countStored([subject]), 0)
  own.fail(false)
  await until(async () => (await pushEvent(gateway, token)).status === 202, 'the acknowledgement')
  t.equal(await countStored([subject]), 1)
})

testRedis(t, 'while the database is down, Redis carries an event to the other replicas', async (t) => {
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
  // A transmitter sends again, and Redis may have been too slow for the first.
  const isRefused = async (): Promise<boolean> => {
    t.equal((await pushEvent(one, await tell(subject))).status, 503)
    return (await statusOf(other, jwt)) === 401
  }
  await until(isRefused, 'the refusal')
  for (const { start } of pair) start()
  await until(async () => (await countStored([subject])) === 1, 'the row')
})

testRedis(t, 'a message of Redis that no transmitter signed ends nothing', async (t) => {
  const { url } = await startRedis(t)
  const gateway = await startTestGateway(t, { world, settings: { ...settings, redis: { url } } })
  const { Redis } = await import('ioredis')
  const publisher = new Redis(url)
  t.teardown(() => publisher.disconnect())
  const [subject, ended] = [await addSubject(), await addSubject()]
  const [jwt, gone] = [await issuer.sign({ sub: subject }), await issuer.sign({ sub: ended })]
  const publish = (token: string, name: unknown) =>
    publisher.publish('sallyport:changes', JSON.stringify({ kind: 'logout-token', token, transmitter: name }))
  const [good, aimed] = [await tell(ended), await tell(subject)]
  await until(async () => {
    await publish(`${aimed.slice(0, -4)}AAAA`, 'idp')
    await publish(aimed, 'unheard-of')
    await publish(good, 'idp')
    return (await statusOf(gateway, gone)) === 401
  }, 'the good one')
  t.equal(await statusOf(gateway, jwt), 200)
})
