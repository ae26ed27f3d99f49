import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import type { RateLimit } from '../../policy/rate-limit.ts'
import type { Count, Usage } from './count.ts'

export type CountBy = <Result>(run: (client: object) => Promise<Result>) => Promise<Result>

/**
 * Counts for all replicas and workers. Each script uses one key, so a Redis cluster spreads the budgets over its nodes.
 */
export function countInRedis(countBy: CountBy): Count {
  // Weak keys: a reload brings other limits, a reconnect another client, and the old limiters go with them.
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
          if (error instanceof RateLimiterRes) return error
          throw error
        })
        .then(toStanding),
    )
}

/** The window is part of the key: the count of an hour must not go on as that of a second. */
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
