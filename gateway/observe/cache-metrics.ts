import { Gauge, type Registry } from 'prom-client'
import { createTallies } from './tally.ts'

/** How often what is held spares a question, and how much is held. */
export type CacheMetrics = Readonly<{
  /** `hit`, `absent`, `miss` or `shared`, for each cache by its name. */
  countCacheRead: (cache: string, result: string) => void
  /** Calls back at each scrape. */
  watchCacheSizes: (sizes: () => Readonly<Record<string, number>>) => void
}>

export function createCacheMetrics(registers: Registry[]): CacheMetrics {
  const reads = createTallies(
    {
      name: 'sallyport_cache_reads_total',
      help: 'Reads of a cache, by result: hit, absent (known not to be there), miss, or shared with a load under way.',
      labelNames: ['cache', 'result'],
    },
    registers,
  )
  const watched: (() => Readonly<Record<string, number>>)[] = []
  new Gauge({
    name: 'sallyport_cache_entries',
    help: 'Entries held in a cache.',
    labelNames: ['cache'],
    registers,
    collect() {
      for (const sizes of watched) for (const [cache, size] of Object.entries(sizes())) this.set({ cache }, size)
    },
  })
  return {
    countCacheRead: (cache, result) => {
      reads(cache, result).count += 1
    },
    watchCacheSizes: (sizes) => {
      watched.push(sizes)
    },
  }
}
