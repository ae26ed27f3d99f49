import t from 'tap'
import { GatewayError } from '../../gateway/base/errors/gateway-error.ts'
import { WaitingRoom } from '../../gateway/rights/waiting.ts'
import { createSimulatedClock } from '../support/simulated-clock.ts'

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** A room with work that ends when the test says so. */
function open(options: Readonly<{ maxInFlight: number; maxPerOwner: number }>) {
  const clock = createSimulatedClock()
  const room = new WaitingRoom({
    places: options.maxInFlight,
    share: options.maxPerOwner,
    mostWaiting: 4_096,
    mostPerOwner: 16 * options.maxPerOwner,
    limit: { waitMs: 50, deadlineMs: 50, clock },
    busy: () => new GatewayError('pdp_busy'),
  })
  const running: Readonly<{ owner: string; withinMs: number; end: () => void }>[] = []
  const told: string[] = []
  const enter = (owner: string): void => {
    room
      .enter(owner, (withinMs) => new Promise<void>((end) => running.push({ owner, withinMs, end })))
      .then(
        () => told.push(`${owner} done`),
        ({ exactCause }) => told.push(`${owner} ${exactCause}`),
      )
  }
  const owners = (): string => running.map(({ owner }) => owner).join('')
  const end = async (index: number): Promise<void> => {
    running[index]?.end()
    await tick()
  }
  return { clock, room, running, told, enter, owners, end }
}

t.test('an owner has its share alone, and others find room', async (t) => {
  const { enter, owners, end, room } = open({ maxInFlight: 4, maxPerOwner: 2 })
  for (const owner of 'aaaaabc') enter(owner)
  t.equal(owners(), 'aabc')
  t.equal(room.countWaiting, 3)
  await end(2)
  t.equal(owners(), 'aabc', 'the freed room is not of the share of a')
  await end(0)
  t.equal(owners(), 'aabca')
})

t.test('owners within their shares take turns', async (t) => {
  const { enter, owners, end } = open({ maxInFlight: 1, maxPerOwner: 4 })
  for (const owner of 'aaaab') enter(owner)
  for (let index = 0; index < 4; index++) await end(index)
  t.match(owners(), /^a(?:b|ab)/)
})

t.test('a wait ends at the deadline, and its place goes to another', async (t) => {
  const { clock, enter, owners, told, end, running, room } = open({ maxInFlight: 1, maxPerOwner: 1 })
  enter('a')
  enter('a')
  await clock.pass(30)
  enter('b')
  await clock.pass(20)
  t.same(told, ['a pdp_busy'])
  await end(0)
  t.equal(owners(), 'ab')
  t.equal(running[1]?.withinMs, 30, 'less what it waited')
  await end(1)
  t.equal(room.countWaiting, 0)
  enter('a')
  t.equal(owners(), 'aba', 'no share leaks')
  t.equal(clock.timers(), 0)
})

t.test('a flood of one owner is refused at once beyond its line', async (t) => {
  const { enter, told, room } = open({ maxInFlight: 4, maxPerOwner: 1 })
  for (let count = 0; count < 300; count++) enter('a')
  await tick()
  t.equal(told.length, 300 - 1 - 16)
  t.equal(room.countWaiting, 16)
})

t.test('owners whose floods fill every place keep no other owner out', async (t) => {
  const { enter, told, room, owners, end } = open({ maxInFlight: 1, maxPerOwner: 16 })
  for (const owner of 'abcdefghijklmnopqrst') for (let count = 0; count < 300; count++) enter(owner)
  await tick()
  t.ok(told.length > 600, 'they are refused beyond their parts')
  t.ok(room.countWaiting < 8_192)
  enter('z')
  await tick()
  t.notOk(told.includes('z pdp_busy'))
  for (let index = 0; index < 21; index++) await end(index)
  t.match(owners(), /z/, 'within one turn of all')
})

t.test('work that fails frees its place', async (t) => {
  const { room, enter, owners } = open({ maxInFlight: 1, maxPerOwner: 1 })
  await t.rejects(
    room.enter('a', async () => Promise.reject(new Error('failed'))),
    { message: 'failed' },
  )
  await tick()
  enter('a')
  t.equal(owners(), 'a')
})
