import { Counter, Gauge, type Registry } from 'prom-client'

export type InvalidationMetrics = Readonly<{
  countInvalidation: (source: string) => void
  countInvalidationDisconnect: (source: string) => void
  countUnreadableChange: (source: string) => void
  /** `lagMs` is the age of the last proof that every change has arrived; undefined before the first. */
  watchInvalidationSource: (source: string, isUp: () => boolean, lagMs: () => number | undefined) => void
}>

export function createInvalidationMetrics(registers: Registry[]): InvalidationMetrics {
  const labelNames = ['source']
  const received = new Counter({
    name: 'sallyport_invalidations_received_total',
    help: 'Invalidations received, by source.',
    labelNames,
    registers,
  })
  const disconnects = new Counter({
    name: 'sallyport_invalidation_source_disconnects_total',
    help: 'Disconnects from an invalidation source.',
    labelNames,
    registers,
  })
  const unreadable = new Counter({
    name: 'sallyport_invalidations_unreadable_total',
    help: 'Messages of an invalidation source that could not be read, so that each counted as a change of anything.',
    labelNames,
    registers,
  })
  const sources: Readonly<{ source: string; isUp: () => boolean; lagMs: () => number | undefined }>[] = []
  new Gauge({
    name: 'sallyport_invalidation_source_up',
    help: 'Whether an invalidation source is connected; without PostgreSQL, cache entries expire within a second.',
    labelNames,
    registers,
    collect() {
      for (const { source, isUp } of sources) this.set({ source }, isUp() ? 1 : 0)
    },
  })
  new Gauge({
    name: 'sallyport_invalidation_lag_seconds',
    help: 'Time since an invalidation source was last known to be in sync; absent before the first time.',
    labelNames,
    registers,
    collect() {
      for (const { source, lagMs } of sources) {
        const lag = lagMs()
        if (lag !== undefined) this.set({ source }, lag / 1_000)
      }
    },
  })
  return {
    countInvalidation: (source) => received.inc({ source }),
    countInvalidationDisconnect: (source) => disconnects.inc({ source }),
    countUnreadableChange: (source) => unreadable.inc({ source }),
    watchInvalidationSource: (source, isUp, lagMs) => {
      // Prometheus sees no increase in a series that first appears with 1.
      unreadable.inc({ source }, 0)
      sources.push({ source, isUp, lagMs })
    },
  }
}
