// Caches, and the messages that keep them true.
import type { Meter } from './meter.ts'

type ReadSizes = () => Readonly<Record<string, number>>

export type CacheMetrics = Readonly<{
  countCacheRead: (cache: string, result: string) => void
  watchCacheSizes: (sizes: ReadSizes) => void
  countUnknownToken: (outcome: string) => void
  watchUnknownTokens: (countWaiting: () => number) => void
}>

export function createCacheMetrics({ count, collect, watchSum }: Meter): CacheMetrics {
  const watched: ReadSizes[] = []
  const countCacheRead = count(
    'sallyport_cache_reads_total',
    'Cache reads, by result: hit, negative_hit (cached absence), miss, coalesced (with a load in progress) or grace (stale during an outage).',
    'cache',
    'result',
  )
  collect('sallyport_cache_entries', 'Entries of a cache.', ['cache'], (gauge) => {
    for (const sizes of watched) for (const [cache, size] of Object.entries(sizes())) gauge.set({ cache }, size)
  })
  return {
    countCacheRead,
    watchCacheSizes: (sizes) => {
      watched.push(sizes)
    },
    countUnknownToken: count(
      'sallyport_unknown_tokens_total',
      'API tokens that were not cached, by outcome: found, refused, throttled or shed.',
      'outcome',
    ),
    watchUnknownTokens: watchSum(
      'sallyport_unknown_tokens_waiting',
      'Queued lookups of API tokens that are not cached.',
    ),
  }
}

export type InvalidationMetrics = Readonly<{
  countInvalidation: (source: string) => void
  countInvalidationDisconnect: (source: string) => void
  countUnreadableChange: (source: string) => void
  /** `lagMs` is the age of the last proof that every change has arrived; undefined before the first. */
  watchInvalidationSource: (source: string, isUp: () => boolean, lagMs: () => number | undefined) => void
}>

export function createInvalidationMetrics({ counter, count, collect }: Meter): InvalidationMetrics {
  const countInvalidation = count(
    'sallyport_invalidations_received_total',
    'Invalidations received, by source.',
    'source',
  )
  const countInvalidationDisconnect = count(
    'sallyport_invalidation_source_disconnects_total',
    'Disconnects from an invalidation source.',
    'source',
  )
  const unreadable = counter(
    'sallyport_invalidations_unreadable_total',
    'Messages of an invalidation source that could not be read, so that each counted as a change of anything.',
    'source',
  )
  const sources: Readonly<{ source: string; isUp: () => boolean; lagMs: () => number | undefined }>[] = []
  collect(
    'sallyport_invalidation_source_up',
    'Whether an invalidation source is connected; without PostgreSQL, cache entries expire within a second.',
    ['source'],
    (gauge) => {
      for (const { source, isUp } of sources) gauge.set({ source }, isUp() ? 1 : 0)
    },
  )
  collect(
    'sallyport_invalidation_lag_seconds',
    'Time since an invalidation source was last known to be in sync; absent before the first time.',
    ['source'],
    (gauge) => {
      for (const { source, lagMs } of sources) {
        const lag = lagMs()
        if (lag !== undefined) gauge.set({ source }, lag / 1_000)
      }
    },
  )
  return {
    countInvalidation,
    countInvalidationDisconnect,
    countUnreadableChange: (source) => {
      unreadable(source).count += 1
    },
    watchInvalidationSource: (source, isUp, lagMs) => {
      unreadable(source)
      sources.push({ source, isUp, lagMs })
    },
  }
}
