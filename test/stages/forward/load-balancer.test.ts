import t from 'tap'
import { createThreshold } from '../../../gateway/stages/forward/health-checks.ts'
import { createLoadBalancer, type OutlierRules } from '../../../gateway/stages/forward/load-balancer.ts'
import type { Attempt } from '../../../gateway/stages/locate/upstream.ts'

const rules: OutlierRules = { failures: 2, ejectMs: 1_000, longestEjectMs: 3_000, ejectPercent: 100 }

function start(origins: readonly string[], more: Partial<OutlierRules> = {}) {
  let nowMs = 0
  const changes: string[] = []
  const addresses = createLoadBalancer({
    origins,
    rules: { ...rules, ...more },
    monotonicMs: () => nowMs,
    onChange: (origin, isUp, why) => changes.push(`${origin} ${isUp ? 'up' : 'down'} ${why}`),
  })
  const finish = (attempt: Attempt, how: 'answered' | 'failed'): string => {
    attempt[how]()
    attempt.end?.()
    return attempt.origin
  }
  /** Tries until each address was asked so often as the rest allows; these fail, others answer. */
  const ask = (failing: readonly string[] = []): string => {
    const attempt = addresses.pick(true)
    return finish(attempt, failing.includes(attempt.origin) ? 'failed' : 'answered')
  }
  const askMany = (times: number, failing: readonly string[] = []): readonly string[] =>
    [...new Set(Array.from({ length: times }, () => ask(failing)))].sort()
  return {
    addresses,
    changes,
    finish,
    ask,
    askMany,
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

t.test('the address with the fewest requests under way gets the next, and equals take turns', async (t) => {
  const { addresses, askMany } = start(['a', 'b', 'c'])
  t.same(askMany(3), ['a', 'b', 'c'])
  const [first, second] = [addresses.pick(true), addresses.pick(true)]
  const third = addresses.pick(true)
  t.same([first, second, third].map(({ origin }) => origin).sort(), ['a', 'b', 'c'])
  second.answered()
  second.end?.()
  t.equal(addresses.pick(true).origin, second.origin)
})

t.test('an attempt that ends twice counts once', async (t) => {
  const { addresses } = start(['a', 'b'])
  const attempt = addresses.pick(true)
  attempt.end?.()
  attempt.end?.()
  t.not(addresses.pick(true).origin, addresses.pick(true).origin)
})

t.test('failures in a row take an address out, an answer between them does not', async (t) => {
  const { addresses, changes, finish, askMany } = start(['a', 'b'])
  for (const how of ['failed', 'answered', 'failed'] as const) {
    const attempts = [addresses.pick(true), addresses.pick(true)]
    for (const attempt of attempts) finish(attempt, attempt.origin === 'a' ? how : 'answered')
  }
  t.same(changes, [])
  askMany(4, ['a'])
  t.same(changes, ['a down requests'])
  t.same(askMany(6), ['b'])
})

t.test('an ejected address is tried after its time: an answer takes it back, a failure doubles the time', async (t) => {
  const { addresses, changes, finish, askMany, pass } = start(['a', 'b'])
  askMany(6, ['a'])
  for (const waitMs of [1_000, 2_000, 3_000, 3_000]) {
    pass(waitMs - 1)
    t.same(askMany(4), ['b'], `not before ${waitMs} ms`)
    pass(1)
    const attempts = [addresses.pick(true), addresses.pick(true), addresses.pick(true)]
    t.equal(attempts.filter(({ origin }) => origin === 'a').length, 1, 'one at a time')
    for (const attempt of attempts) finish(attempt, attempt.origin === 'a' ? 'failed' : 'answered')
  }
  t.same(changes, ['a down requests'], 'told once')
  pass(3_000)
  t.same(askMany(4), ['a', 'b'])
  t.same(changes, ['a down requests', 'a up requests'])
  askMany(6, ['a'])
  pass(1_000)
  t.same(askMany(4), ['a', 'b'], 'from the beginning')
})

t.test('a trial without a verdict leaves the next request to try', async (t) => {
  const { addresses, askMany, pass } = start(['a', 'b'])
  askMany(6, ['a'])
  pass(1_000)
  const attempts = [addresses.pick(true), addresses.pick(true)]
  for (const attempt of attempts) attempt.end?.()
  t.same(askMany(4), ['a', 'b'])
})

t.test('a request that cannot be repeated tries an ejected address only after twice the time', async (t) => {
  const { addresses, finish, askMany, pass } = start(['a', 'b'])
  const chooseMany = (): readonly string[] =>
    [...new Set(Array.from({ length: 4 }, () => finish(addresses.pick(false), 'answered')))].sort()
  askMany(6, ['a'])
  pass(1_999)
  t.same(chooseMany(), ['b'])
  pass(1)
  t.same(chooseMany(), ['a', 'b'])
})

t.test('the last address is tried whatever it does', async (t) => {
  const { changes, askMany, ask } = start(['a', 'b', 'c'])
  askMany(30, ['a', 'b', 'c'])
  t.equal(changes.length, 3, 'all of them are told')
  const left = ask(['a', 'b', 'c'])
  t.same(askMany(5, ['a', 'b', 'c']), [left])
  const single = start(['a'])
  t.same(single.askMany(5, ['a']), ['a'])
  t.same(single.changes, ['a down requests'])
  single.ask()
  t.same(single.changes, ['a down requests', 'a up requests'])
})

t.test('an only address counts nothing that is under way, and makes nothing for a request', async (t) => {
  const { addresses } = start(['a'])
  const attempt = addresses.pick(true)
  t.equal(addresses.pick(false), attempt)
  t.equal(attempt.end, undefined)
  t.type(start(['a', 'b']).addresses.pick(true).end, 'function')
})

t.test('no more addresses are ejected than ejectPercent allows, but of several always one', async (t) => {
  const half = start(['a', 'b', 'c', 'd'], { ejectPercent: 50 })
  half.askMany(40, ['a', 'b', 'c', 'd'])
  t.equal(half.askMany(12, ['a', 'b', 'c', 'd']).length, 2)
  const few = start(['a', 'b', 'c'], { ejectPercent: 1 })
  few.askMany(12, ['a'])
  t.same(few.askMany(6), ['b', 'c'])
})

t.test('a retry gets another good address, or none', async (t) => {
  const { addresses, askMany } = start(['a', 'b'])
  const first = addresses.pick(true)
  t.not(addresses.pickOther([first])?.origin, first.origin)
  askMany(8, ['a'])
  const good = addresses.pick(true)
  t.equal(good.origin, 'b')
  t.equal(addresses.pickOther([good]), undefined)
  const single = start(['a']).addresses
  t.equal(single.pickOther([single.pick(true)]), undefined)
})

t.test('an address that is not well is left alone, unless none is', async (t) => {
  const { addresses, changes, askMany } = start(['a', 'b'])
  addresses.noteHealth('a', false)
  addresses.noteHealth('a', false)
  t.same(askMany(4), ['b'])
  addresses.noteHealth('b', false)
  t.same(askMany(4), ['a', 'b'])
  addresses.noteHealth('a', true)
  t.same(askMany(4), ['a'])
  t.same(changes, ['a down health', 'b down health', 'a up health'])
})

t.test('a check changes its mind after so many outcomes in a row', async (t) => {
  const judge = createThreshold({ path: '/', intervalMs: 1, timeoutMs: 1, unhealthyAfter: 3, healthyAfter: 2 })
  const outcomes = [true, true, false, false, true, false, false, false, true, true]
  t.same(outcomes.map(judge), [
    undefined,
    true,
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
    false,
    undefined,
    true,
  ])
})
