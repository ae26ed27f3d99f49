import t, { type Test } from 'tap'
import { startTestGateway, until } from '../support/gateway.ts'
import { prepareLogouts, push, seconds, statusOf } from '../support/logout-fixture.ts'
import { eventTypes, pushEvent, startTransmitter, withTransmitter } from '../support/transmitter.ts'
import { readMetric } from '../support/workers.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const fixture = await prepareLogouts(t, world)
const { issuer, addSubject, signLogout } = fixture
const transmitter = await startTransmitter(t)
const { issuers, ...settings } = withTransmitter(fixture, transmitter)

const start = (owner: Test, more: object, transmitters: object = {}) =>
  startTestGateway(owner, {
    world,
    settings: {
      ...settings,
      issuers: issuers.map((one) => ({ ...one, ...more })),
      transmitters: settings.transmitters.map((one) => ({ ...one, ...transmitters })),
    },
  })

t.test('a logout or event ends the logins of either name of a mapped subject', async (t) => {
  const gateway = await start(t, { claims: { subject: '/oid' } })
  const tell = async (kind: string, sub: string) => {
    if (kind === 'logout') return (await push(gateway, await signLogout({ sub }))).status
    const user = { format: 'iss_sub', iss: issuer.issuer, sub }
    return (await pushEvent(gateway, await transmitter.tell(eventTypes.sessionRevoked, user))).status
  }
  for (const kind of ['logout', 'event'])
    for (const by of ['sub', 'oid'] as const) {
      const oid = await addSubject()
      const names = { sub: `pairwise-${oid}`, oid }
      const before = seconds() - 10
      const jwt = await issuer.sign({ ...names, iat: before })
      const other = await issuer.sign({ sub: 'another', oid: await addSubject(), iat: before })
      t.equal(await statusOf(gateway, jwt), 200)
      t.match(await tell(kind, names[by]), /20[02]/)
      t.equal(await statusOf(gateway, jwt), 401, `${kind} by ${by}`)
      t.equal(await statusOf(gateway, other), 200, 'and of no other')
    }
})

t.test('a JWT from just before a logout ends although the clock of its issuer is ahead', async (t) => {
  const clockToleranceSeconds = 30
  const gateway = await start(t, { clockToleranceSeconds }, { clockToleranceSeconds })
  const ahead = seconds() + 20
  const [signedOut, told] = [await addSubject(), await addSubject()]
  const sign = (sub: string, iat: number) => issuer.sign({ sub, iat })
  const user = { format: 'iss_sub', iss: issuer.issuer, sub: told }
  t.equal((await push(gateway, await signLogout({ sub: signedOut, iat: ahead }))).status, 200)
  const event = await transmitter.tell(eventTypes.sessionRevoked, user, {}, { iat: ahead })
  t.equal((await pushEvent(gateway, event)).status, 202)
  for (const sub of [signedOut, told]) {
    t.equal(await statusOf(gateway, await sign(sub, ahead - 1)), 401)
    t.equal(await statusOf(gateway, await sign(sub, ahead + 1)), 200, 'a new login')
  }
})

t.test('a JWT without iat is refused where its issuer has logout', async (t) => {
  const sub = await addSubject()
  const jwt = await issuer.sign({ sub, iat: null })
  t.equal(await statusOf(await start(t, {}), jwt), 401)
  t.equal(await statusOf(await start(t, { logout: undefined }), jwt), 200)
})

t.test('stored ends that match no identity and no JWT are counted', async (t) => {
  const plain = await start(t, {})
  const mapping = await start(t, { claims: { subject: '/oid' } })
  const oid = await addSubject()
  const jwt = await issuer.sign({ sub: `raw-${oid}`, oid, sid: 'seen', iat: seconds() - 10 })
  t.equal(await statusOf(mapping, jwt), 200)
  const told = { plain: { no_identity: 0, not_known: 0 }, mapping: { no_identity: 0, not_known: 0 } }
  const check = async (where: 'plain' | 'mapping', cause: 'no_identity' | 'not_known' | undefined, named: object) => {
    const gateway = where === 'plain' ? plain : mapping
    t.equal((await push(gateway, await signLogout({ ...named }))).status, 200)
    if (cause) told[where][cause] += 1
    const read = async () => {
      const counts = await readMetric(gateway, 'sallyport_signals_unmatched_total')
      return Object.keys(told[where]).map((name) =>
        Object.entries(counts).reduce((sum, [labels, count]) => sum + (labels.includes(name) ? count : 0), 0),
      )
    }
    const wanted = JSON.stringify(Object.values(told[where]))
    await until(async () => JSON.stringify(await read()) === wanted, `${where} ${JSON.stringify(named)}: ${wanted}`)
  }
  await check('plain', 'no_identity', { sub: 'never-here' })
  await check('plain', undefined, { sub: await addSubject() })
  await check('plain', 'not_known', { sid: 'elsewhere' })
  // With a mapped subject an unknown name may be a `sub` that another replica saw.
  await check('mapping', 'not_known', { sub: 'raw-of-another-replica' })
  await check('mapping', undefined, { sid: 'seen' })
  await check('mapping', undefined, { sub: `raw-${oid}` })
  await check('mapping', undefined, { sub: await addSubject() })
  const user = { format: 'iss_sub', iss: issuer.issuer, sub: 'never-here-either' }
  t.equal((await pushEvent(plain, await transmitter.tell(eventTypes.sessionRevoked, user))).status, 202)
  told.plain.no_identity += 1
  await check('plain', 'not_known', { sid: 'elsewhere-too' })
})
