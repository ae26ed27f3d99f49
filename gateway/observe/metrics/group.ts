import { Counter, Gauge, Registry } from 'prom-client'
import { combineMetrics, type MetricsSnapshot, onlyCounts, withoutStates } from './combine.ts'

/** The numbers of a group of processes: those of its primary, of its workers, and of workers that have died. */
export type GroupMetrics = Readonly<{
  countRestart: () => void
  /** Calls back at each scrape. */
  watchWorkers: (serving: () => number) => void
  /** Keeps the newest numbers of a process, by its id. */
  note: (pid: number, snapshot: MetricsSnapshot) => void
  /** Keeps the counts of a process that has died: a sum that fell would look like a restart of everything. */
  retire: (pid: number) => void
  /** Everything that is known by now, the primary's own numbers added. */
  text: (primary: MetricsSnapshot) => Promise<string>
  /** The same as data. */
  snapshot: (primary: MetricsSnapshot) => Promise<MetricsSnapshot>
}>

/** A worker that is too busy to tell its numbers is counted with its last ones. */
export function createGroupMetrics(): GroupMetrics {
  const registry = new Registry()
  const restarts = new Counter({
    name: 'sallyport_worker_restarts_total',
    help: 'Workers that were started in the place of one that died.',
    registers: [registry],
  })
  let serving = () => 0
  new Gauge({
    name: 'sallyport_workers',
    help: 'Workers that serve.',
    registers: [registry],
    collect() {
      this.set(serving())
    },
  })
  const living = new Map<number, MetricsSnapshot>()
  let departed: readonly MetricsSnapshot[] = []
  const combine = async (primary: MetricsSnapshot): Promise<Registry> => {
    const own = await registry.getMetricsAsJSON()
    return combineMetrics([own, withoutStates(primary), ...living.values(), ...departed])
  }
  return {
    countRestart: () => restarts.inc(),
    watchWorkers: (count) => {
      serving = count
    },
    note: (pid, snapshot) => {
      living.set(pid, snapshot)
    },
    retire: (pid) => {
      const last = living.get(pid)
      living.delete(pid)
      if (last) departed = [addUp([...departed, onlyCounts(last)])]
    },
    text: async (primary) => (await combine(primary)).metrics(),
    snapshot: async (primary) => (await combine(primary)).getMetricsAsJSON(),
  }
}

/** The registry of a combination holds its values, though its type does not say so. */
const addUp = (snapshots: readonly MetricsSnapshot[]): MetricsSnapshot =>
  combineMetrics(snapshots).getMetricsAsArray() as unknown as MetricsSnapshot
