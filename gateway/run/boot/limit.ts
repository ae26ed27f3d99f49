import type { LimitMetrics } from '../../observe/metrics/limit.ts'
import type { Count } from '../../stages/limit/count.ts'
import { countInMemory } from '../../stages/limit/count-in-memory.ts'
import type { CountBy } from '../../stages/limit/count-in-redis.ts'
import { createLimit, type Limit } from '../../stages/limit/limit.ts'

/** About 15 MB. */
const maxBudgets = 100_000

type LimitDependencies = Readonly<{ metrics: LimitMetrics; monotonicMs: () => number }>

export function openLimit(countBy: CountBy | undefined, { metrics, monotonicMs }: LimitDependencies): Limit {
  const count = countBy ? countLater(countBy) : countInMemory({ maxBudgets, monotonicMs })
  return createLimit({ count, onLimited: metrics.countLimited, onError: metrics.countLimitError })
}

/** The library takes 20 ms to load, and most gateways have no rate limits. */
function countLater(countBy: CountBy): Count {
  let loaded: Promise<Count> | undefined
  return async (limit, owner) => {
    loaded ??= import('../../stages/limit/count-in-redis.ts').then(({ countInRedis }) => countInRedis(countBy))
    const count = await loaded
    return count(limit, owner)
  }
}
