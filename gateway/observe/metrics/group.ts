import { Registry } from 'prom-client'
import { combineMetrics, type MetricsSnapshot, onlyCounts, withoutStates } from './combine.ts'
import { createMeter } from './meter.ts'

export type GroupMetrics = Readonly<{
  countRestart: () => void
  watchWorkers: (serving: () => number) => void
  note: (pid: number, snapshot: MetricsSnapshot) => void
  /** Keeps the counters of a dead process: a falling sum would look like a restart. */
  retire: (pid: number) => void
  text: (primary: MetricsSnapshot) => Promise<string>
  snapshot: (primary: MetricsSnapshot) => Promise<MetricsSnapshot>
}>

export function createGroupMetrics(): GroupMetrics {
  const registry = new Registry()
  const meter = createMeter(registry)
  const living = new Map<number, MetricsSnapshot>()
  let departed: readonly MetricsSnapshot[] = []
  const combine = async (primary: MetricsSnapshot): Promise<Registry> => {
    const own = await registry.getMetricsAsJSON()
    return combineMetrics([own, withoutStates(primary), ...living.values(), ...departed])
  }
  return {
    countRestart: meter.count('sallyport_worker_restarts_total', 'Restarts of workers that died.'),
    watchWorkers: meter.watch('sallyport_workers', 'Workers that serve requests.'),
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

/** The aggregated registry holds its values, though its type does not say so. */
const addUp = (snapshots: readonly MetricsSnapshot[]): MetricsSnapshot =>
  combineMetrics(snapshots).getMetricsAsArray() as unknown as MetricsSnapshot
