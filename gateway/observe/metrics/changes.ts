import { Counter, Gauge, type Registry } from 'prom-client'

/** Whether what is held in memory still follows the directory. */
export type ChangeMetrics = Readonly<{
  countChange: (source: string) => void
  countChangeLoss: (source: string) => void
  /** `lagMs`: since when every change is known to have been heard; undefined before the first proof. Asked at each scrape. */
  watchChangeSource: (source: string, isUp: () => boolean, lagMs: () => number | undefined) => void
}>

/** By source: `postgres`, `redis`. */
export function createChangeMetrics(registers: Registry[]): ChangeMetrics {
  const labelNames = ['source']
  const changes = new Counter({
    name: 'sallyport_changes_heard_total',
    help: 'Changes of the directory that reached the caches, by source.',
    labelNames,
    registers,
  })
  const losses = new Counter({
    name: 'sallyport_change_source_losses_total',
    help: 'How often a source of changes was lost.',
    labelNames,
    registers,
  })
  const sources: Readonly<{ source: string; isUp: () => boolean; lagMs: () => number | undefined }>[] = []
  new Gauge({
    name: 'sallyport_change_source_up',
    help: 'Whether changes are heard from a source; without PostgreSQL nothing is held for longer than a second.',
    labelNames,
    registers,
    collect() {
      for (const { source, isUp } of sources) this.set({ source }, isUp() ? 1 : 0)
    },
  })
  new Gauge({
    name: 'sallyport_change_lag_seconds',
    help: 'Age of the last proof that every change was heard from a source; absent before the first.',
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
    countChange: (source) => changes.inc({ source }),
    countChangeLoss: (source) => losses.inc({ source }),
    watchChangeSource: (source, isUp, lagMs) => {
      sources.push({ source, isUp, lagMs })
    },
  }
}
