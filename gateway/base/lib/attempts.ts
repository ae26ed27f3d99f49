// Small data structures and schedulers that know nothing of requests.
import { LRUCache } from 'lru-cache'

export type AttemptLimit = Readonly<{ perSecond: number; burst: number }>

export type Attempts = Readonly<{
  take: (owner: string) => number | undefined
  giveBack: (owner: string) => void
}>

/** Far above the addresses that a worker sees at a time. Beyond it the longest idle one gets a full bucket again. */
const rememberedOwners = 50_000

type Bucket = { left: number; atMs: number }

export function createAttempts({ perSecond, burst }: AttemptLimit, monotonicMs: () => number): Attempts {
  const buckets = new LRUCache<string, Bucket>({ max: rememberedOwners })
  const refill = (owner: string): Bucket => {
    const nowMs = monotonicMs()
    const bucket = buckets.get(owner) ?? { left: burst, atMs: nowMs }
    bucket.left = Math.min(burst, bucket.left + ((nowMs - bucket.atMs) / 1_000) * perSecond)
    bucket.atMs = nowMs
    buckets.set(owner, bucket)
    return bucket
  }
  return {
    take: (owner) => {
      const bucket = refill(owner)
      if (bucket.left < 1) return Math.max(1, Math.ceil((1 - bucket.left) / perSecond))
      bucket.left -= 1
      return undefined
    },
    giveBack: (owner) => {
      const bucket = refill(owner)
      bucket.left = Math.min(burst, bucket.left + 1)
    },
  }
}
