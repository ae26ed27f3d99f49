import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import type { RateLimit } from '../policy/rate-limit.ts'
import type { Count, Standing } from './count.ts'

/** Counts where all replicas and workers do. The connection is undefined while there is none. */
export function countInRedis(connection: () => object | undefined): Count {
  // A reload brings other limits, a loss another connection: what belongs to either goes with it.
  const limiters = new WeakMap<object, WeakMap<RateLimit, RateLimiterRedis>>()
  const findLimiter = (client: object, limit: RateLimit): RateLimiterRedis => {
    const known = limiters.get(client) ?? new WeakMap<RateLimit, RateLimiterRedis>()
    limiters.set(client, known)
    const limiter = known.get(limit) ?? createLimiter(client, limit)
    known.set(limit, limiter)
    return limiter
  }
  return async (limit, owner) => {
    const client = connection()
    if (!client) throw new Error('there is no connection to Redis')
    try {
      return toStanding(await findLimiter(client, limit).consume(owner))
    } catch (error) {
      // What is over the budget is thrown as well.
      if (error instanceof RateLimiterRes) return toStanding(error)
      throw error
    }
  }
}

/** The window is part of the key: a count of an hour must not go on as one of a second. */
const createLimiter = (storeClient: object, { name, requests, seconds }: RateLimit): RateLimiterRedis =>
  new RateLimiterRedis({
    storeClient,
    keyPrefix: `sallyport:rate:${name}:${seconds}`,
    points: requests,
    duration: seconds,
  })

const toStanding = ({ consumedPoints, msBeforeNext }: RateLimiterRes): Standing => ({
  used: consumedPoints,
  resetMs: msBeforeNext,
})
