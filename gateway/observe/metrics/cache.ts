import { Gauge, type Registry } from 'prom-client'
import { createTallies } from './fast-counter.ts'

export type CacheMetrics = Readonly<{
  countCacheRead: (cache: string, result: string) => void
  watchCacheSizes: (sizes: () => Readonly<Record<string, number>>) => void
  countUnknownToken: (outcome: string) => void
  watchUnknownTokens: (countWaiting: () => number) => void
}>

export function createCacheMetrics(registers: Registry[]): CacheMetrics {
  const reads = createTallies(
    {
      name: 'sallyport_cache_reads_total',
      help: 'Cache reads, by result: hit, negative_hit (cached absence), miss, coalesced (with a load in progress) or grace (stale during an outage).',
      labelNames: ['cache', 'result'],
    },
    registers,
  )
  const watched: (() => Readonly<Record<string, number>>)[] = []
  new Gauge({
    name: 'sallyport_cache_entries',
    help: 'Entries of a cache.',
    labelNames: ['cache'],
    registers,
    collect() {
      for (const sizes of watched) for (const [cache, size] of Object.entries(sizes())) this.set({ cache }, size)
    },
  })
  const unknownTokens = createTallies(
    {
      name: 'sallyport_unknown_tokens_total',
      help: 'API tokens that were not cached, by outcome: found, refused, throttled or shed.',
      labelNames: ['outcome'],
    },
    registers,
  )
  const lanes: (() => number)[] = []
  new Gauge({
    name: 'sallyport_unknown_tokens_waiting',
    help: 'Queued lookups of API tokens that are not cached.',
    registers,
    collect() {
      this.set(lanes.reduce((sum, countWaiting) => sum + countWaiting(), 0))
    },
  })
  return {
    countUnknownToken: (outcome) => {
      unknownTokens(outcome).count += 1
    },
    watchUnknownTokens: (countWaiting) => {
      lanes.push(countWaiting)
    },
    countCacheRead: (cache, result) => {
      reads(cache, result).count += 1
    },
    watchCacheSizes: (sizes) => {
      watched.push(sizes)
    },
  }
}
