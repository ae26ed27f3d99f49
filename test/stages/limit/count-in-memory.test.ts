import t from 'tap'
import type { RateLimit } from '../../../gateway/policy/rate-limit.ts'
import { countInMemory } from '../../../gateway/stages/limit/count-in-memory.ts'
import { createSimulatedClock } from '../../support/simulated-clock.ts'

const limit: RateLimit = { name: 'runs', requests: 3, seconds: 10, by: 'principal', onError: 'allow' }

t.test('a window begins with its first request, and the next window counts from zero', async (t) => {
  const clock = createSimulatedClock()
  const count = countInMemory({ maxBudgets: 10, monotonicMs: clock.monotonicMs })
  t.same(await count(limit, 'user:1'), { used: 1, resetMs: 10_000 })
  await clock.pass(4_000)
  t.same(await count(limit, 'user:1'), { used: 2, resetMs: 6_000 })
  t.same(await count(limit, 'user:2'), { used: 1, resetMs: 10_000 }, 'another user has a window of their own')
  await clock.pass(5_999)
  t.same(await count(limit, 'user:1'), { used: 3, resetMs: 1 })
  await clock.pass(1)
  t.same(await count(limit, 'user:1'), { used: 1, resetMs: 10_000 })
})

t.test(
  'limits of other names or windows count apart; a reload that allows more requests keeps the count',
  async (t) => {
    const clock = createSimulatedClock()
    const count = countInMemory({ maxBudgets: 10, monotonicMs: clock.monotonicMs })
    await count(limit, 'user:1')
    t.match(await count({ ...limit, name: 'reads' }, 'user:1'), { used: 1 })
    t.match(await count({ ...limit, seconds: 1 }, 'user:1'), { used: 1 })
    t.match(await count({ ...limit, requests: 30 }, 'user:1'), { used: 2 })
  },
)

t.test('at the bound of held budgets the least recently used one is dropped', async (t) => {
  const clock = createSimulatedClock()
  const count = countInMemory({ maxBudgets: 100, monotonicMs: clock.monotonicMs })
  await count(limit, 'steady')
  await count(limit, 'rare')
  for (let number = 0; number < 1_000; number += 1) {
    await count(limit, `user:${number}`)
    await count(limit, 'steady')
  }
  t.match(
    await count(limit, 'steady'),
    { used: 1_002 },
    'a flood of others does not reset the count of a steady caller',
  )
  t.match(await count(limit, 'rare'), { used: 1 })
  t.match(await count(limit, 'user:999'), { used: 2 })
  t.match(await count(limit, 'user:0'), { used: 1 })
})
