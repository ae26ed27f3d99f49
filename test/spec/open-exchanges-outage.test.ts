import { Redis } from 'ioredis'
import t from 'tap'
import { startEndlessUpstream } from '../support/endless-upstream.ts'
import { parseEvents } from '../support/event-streams.ts'
import { startFairClock } from '../support/fair-clock.ts'
import { freezePostgres } from '../support/freeze-postgres.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { type Account, populate } from '../support/population.ts'
import { startRedis, testRedis } from '../support/redis.ts'
import { type ReadAnswer, readAnswer, readPermitted } from '../support/streams.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t, { hasOwnServer: true })
const { addAccount } = await populate(t, world)
const { url } = await startEndlessUpstream(t)
const unknownMs = 5_000

const startWith = (streams: Readonly<Record<string, unknown>>, settings = {}) =>
  startTestGateway(t, { world, upstreams: { agents: { url } }, settings: { streams, ...settings } })

async function open({ public: origin }: Readonly<{ public: string }>, { headers }: Account): Promise<ReadAnswer> {
  const answer = await readPermitted(() => readAnswer(`${origin}/agent/${world.agents.acme}/responses`, headers))
  await until(() => answer.text().length > 200, 'events')
  return answer
}

const lastOf = (bytes: Buffer): string => parseEvents(bytes).at(-1)?.data ?? ''

/** Stops the database, and lets it go on afterwards. */
async function whileFrozen(work: () => Promise<void>): Promise<void> {
  const thaw = freezePostgres(Number(world.world.postgres.pid()))
  try {
    await work()
  } finally {
    thaw()
  }
}

const isWell = async (admin: string): Promise<boolean> => (await fetch(`${admin}/readyz`)).status === 200

t.test('without a database, `end` ends at once, and `keep` after `unknownMs`', async (t) => {
  const [ending, keeping, patient] = await Promise.all([
    startWith({ onUnknown: 'end' }),
    startWith({ onUnknown: 'keep', unknownMs }),
    startWith({ onUnknown: 'keep' }),
  ])
  const account = await addAccount('unverified')
  const [ended, kept, lasting] = await Promise.all([ending, keeping, patient].map((gateway) => open(gateway, account)))
  if (!ended || !kept || !lasting) throw new Error('three were opened')
  await whileFrozen(async () => {
    const frozenAtMs = performance.now()
    const passedMs = startFairClock(t)
    t.match(lastOf(await ended.whole()), /"access_unverified"/)
    t.ok(passedMs() < 2_500, `${passedMs()} ms`)
    t.notOk(kept.hasEnded(), 'the other goes on')
    t.match(lastOf(await kept.whole()), /"access_unverified"/)
    const keptMs = performance.now() - frozenAtMs
    // `unknownMs` counts from the last reading, and on a busy machine that is seconds before.
    t.ok(keptMs > unknownMs / 2 && passedMs() < unknownMs + 2_000, `${keptMs} ms`)
  })
  await until(() => isWell(patient.admin), 'the database again')
  const { length } = lasting.text()
  await until(() => lasting.text().length > length + 1_000, 'further events')
  t.notOk(lasting.hasEnded(), 'an outage that is over ends nothing')
  lasting.leave()
})

testRedis(t, 'a change that is heard and cannot be read ends what it names, with `keep` too', async (t) => {
  const redis = await startRedis(t)
  const gateway = await startWith({ onUnknown: 'keep' }, { redis: { url: redis.url } })
  const isUp = async (): Promise<boolean> =>
    (await (await fetch(`${gateway.admin}/metrics`)).text()).includes('invalidation_source_up{source="redis"} 1')
  await until(isUp, 'Redis')
  const publisher = new Redis(redis.url)
  t.teardown(() => publisher.disconnect())
  const [named, other] = [await addAccount('named'), await addAccount('other')]
  const [ended, kept] = [await open(gateway, named), await open(gateway, other)]
  await whileFrozen(async () => {
    await publisher.publish('sallyport:changes', JSON.stringify({ kind: 'user', id: named.id }))
    const passedMs = startFairClock(t)
    t.match(lastOf(await ended.whole()), /"access_unverified"/)
    t.ok(passedMs() < 2_000, `${passedMs()} ms`)
    t.notOk(kept.hasEnded())
  })
  kept.leave()
})
