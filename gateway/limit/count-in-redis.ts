import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import type { RateLimit } from '../policy/rate-limit.ts'
import type { Count, Usage } from './count.ts'

/** Runs a command of a Redis client; rejects while there is no connection, and where Redis does not answer in time. */
export type CountBy = <Result>(run: (client: object) => Promise<Result>) => Promise<Result>

/** Counts where all replicas and workers do. Each script has one key, so that in a cluster budgets spread over all nodes. */
export function countInRedis(countBy: CountBy): Count {
  // A reload brings other limits, a loss another connection: what belongs to either goes with it.
  const limiters = new WeakMap<object, WeakMap<RateLimit, RateLimiterRedis>>()
  const findLimiter = (client: object, limit: RateLimit): RateLimiterRedis => {
    const known = limiters.get(client) ?? new WeakMap<RateLimit, RateLimiterRedis>()
    limiters.set(client, known)
    const limiter = known.get(limit) ?? createLimiter(client, limit)
    known.set(limit, limiter)
    return limiter
  }
  return (limit, owner) =>
    countBy((client) =>
      findLimiter(client, limit)
        .consume(owner)
        .catch((error: unknown) => {
          // What is over the budget is thrown as well.
          if (error instanceof RateLimiterRes) return error
          throw error
        })
        .then(toStanding),
    )
}

/** The window is part of the key: a count of an hour must not go on as one of a second. */
const createLimiter = (storeClient: object, { name, requests, seconds }: RateLimit): RateLimiterRedis =>
  new RateLimiterRedis({
    storeClient,
    keyPrefix: `sallyport:rate:${name}:${seconds}`,
    points: requests,
    duration: seconds,
  })

const toStanding = ({ consumedPoints, msBeforeNext }: RateLimiterRes): Usage => ({
  used: consumedPoints,
  resetMs: msBeforeNext,
})
