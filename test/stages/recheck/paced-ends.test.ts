import t, { type Test } from 'tap'
import { GatewayError } from '../../../gateway/base/errors/gateway-error.ts'
import { OpenExchange } from '../../../gateway/stages/recheck/open-exchange.ts'
import { PacedEnds } from '../../../gateway/stages/recheck/paced-ends.ts'
import { compileRoutes } from '../../../gateway/stages/route/table.ts'
import { openWith, route, tokenOf } from '../../support/open-exchange.ts'

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Other work of this process takes turns of the event loop, too. */
const patience = 1_000

const longestRestMs = 4

const table = compileRoutes([route])
const open = compileRoutes([{ ...route, role: undefined }])
const end = { code: 'access_revoked', refusal: new GatewayError('membership_lost'), isCredential: false } as const

/** Ends that take 0.2 ms each, on a clock that shows nothing else unless it is set, and rests that the test ends. */
function createEndsFixture(t: Test) {
  const state = {
    ms: 1_000,
    ended: [] as (number | undefined)[],
    endedAtRests: [] as number[],
    restsMs: [] as number[],
    goOn: (): void => undefined,
  }
  const { setTimeout: wait } = globalThis
  t.intercept(globalThis, 'setTimeout', {
    value: (work: () => void, ms: number) => {
      // Timers of other work in this process take longer than any rest.
      if (!(ms <= longestRestMs)) return wait(work, ms)
      state.restsMs.push(ms)
      state.endedAtRests.push(state.ended.length)
      const { goOn } = state
      state.goOn = () => {
        state.goOn = () => undefined
        goOn()
        work()
      }
      return wait(() => undefined, 0)
    },
  })
  const ends = new PacedEnds(
    ({ organizationId, userId }) => {
      state.ended.push(organizationId ?? userId)
      state.ms += 0.2
    },
    () => state.ms,
  )
  const add = (organization: number, dueAtMs = Number.POSITIVE_INFINITY): void =>
    ends.add(new OpenExchange(openWith(tokenOf(organization), table, {}), 0, 0, 0), end, dueAtMs)
  const addWithout = (user: number): void => {
    const record = tokenOf(user)
    const homeless = { ...record, user: { ...record.user, roles: [] } }
    ends.add(new OpenExchange(openWith(homeless, open, {}), 0, 0, 0), end, Number.POSITIVE_INFINITY)
  }
  return { state, add, addWithout }
}

t.test('a single end comes at once', async (t) => {
  const { state, add } = createEndsFixture(t)
  add(1)
  t.same(state.ended, [1])
  await nextTurn()
  add(2)
  t.same(state.ended, [1, 2])
})

t.test('a crowd ends some in each turn, with rests between', async (t) => {
  const { state, add } = createEndsFixture(t)
  for (let count = 0; count < 20; count += 1) add(1)
  t.equal(state.ended.length, 1)
  for (let turn = 0; turn < patience && state.ended.length < 20; turn += 1) {
    await nextTurn()
    state.goOn()
  }
  t.equal(state.ended.length, 20)
  const counts = state.endedAtRests.map((count, index) => count - (state.endedAtRests[index - 1] ?? 0))
  t.ok(
    counts.every((count) => count <= 4),
    'no more than half a millisecond takes',
  )
  t.ok(state.restsMs.length >= 5)
  t.ok(state.restsMs.every((ms) => ms >= 1 && ms <= 4))
})

t.test('a crowd for which the time is short ends without rests', async (t) => {
  const { state, add } = createEndsFixture(t)
  for (let count = 0; count < 100; count += 1) add(1)
  state.ms += 1_000
  for (let turn = 0; turn < patience && state.ended.length < 100; turn += 1) await nextTurn()
  t.equal(state.ended.length, 100)
  t.same(state.restsMs, [])
})

t.test('the end of another organization does not wait for those of a crowd', async (t) => {
  const { state, add } = createEndsFixture(t)
  for (let count = 0; count < 50; count += 1) add(1)
  add(2)
  for (let turn = 0; turn < patience && !state.ended.includes(2); turn += 1) {
    await nextTurn()
    state.goOn()
  }
  t.ok(state.ended.includes(2), 'it has had its turn')
  t.ok(state.ended.length < 10)
})

t.test('the end of a user without an organization does not wait for those of a crowd', async (t) => {
  const { state, addWithout } = createEndsFixture(t)
  for (let count = 0; count < 50; count += 1) addWithout(1)
  addWithout(2)
  for (let turn = 0; turn < patience && !state.ended.includes(2); turn += 1) {
    await nextTurn()
    state.goOn()
  }
  t.ok(state.ended.includes(2), 'it has had its turn')
  t.ok(state.ended.length < 10)
})

t.test('a crowd whose second has passed in part ends in what is left of it', async (t) => {
  for (const leftMs of [300, 100, 0]) {
    const { state, add } = createEndsFixture(t)
    // The longest rests are of crowds of the tests above, which may go on.
    const ownRests = (): readonly number[] => state.restsMs.filter((ms) => ms < longestRestMs)
    for (let count = 0; count < 600; count += 1) add(1, 1_000 + leftMs)
    let counted = 0
    for (let turn = 0; turn < patience && state.ended.length < 600; turn += 1) {
      await nextTurn()
      for (; counted < ownRests().length; counted += 1) state.ms += ownRests()[counted] ?? 0
      state.goOn()
    }
    t.equal(state.ended.length, 600)
    const restedMs = ownRests().reduce((sum, ms) => sum + ms, 0)
    t.ok(restedMs <= Math.max(0, leftMs), `${leftMs} ms left: ${restedMs} ms of rests`)
  }
})
