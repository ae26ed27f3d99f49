import type { Count } from '../limit/count.ts'
import { countInMemory } from '../limit/count-in-memory.ts'
import type { CountBy } from '../limit/count-in-redis.ts'
import { createLimit, type Limit } from '../limit/limit.ts'
import type { LimitMetrics } from '../observe/metrics/limit.ts'

/** Some 15 MB of them. */
const maxBudgets = 100_000

type LimitDependencies = Readonly<{ metrics: LimitMetrics; monotonicMs: () => number }>

/** Counts in Redis where it is configured, else in this process. */
export function openLimit(countBy: CountBy | undefined, { metrics, monotonicMs }: LimitDependencies): Limit {
  const count = countBy ? countLater(countBy) : countInMemory({ maxBudgets, monotonicMs })
  return createLimit({ count, onLimited: metrics.countLimited, onError: metrics.countLimitError })
}

/** The library takes 20 ms to load, and most gateways count nothing. */
function countLater(countBy: CountBy): Count {
  let loaded: Promise<Count> | undefined
  return async (limit, owner) => {
    loaded ??= import('../limit/count-in-redis.ts').then(({ countInRedis }) => countInRedis(countBy))
    const count = await loaded
    return count(limit, owner)
  }
}
