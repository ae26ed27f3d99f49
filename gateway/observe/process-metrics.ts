import { readdir } from 'node:fs/promises'
import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client'
import { lagEveryMs } from './event-loop.ts'

/** They walk through every handle of the process, which with 10,000 connections holds all requests up for 50 ms a scrape. */
const costly = ['handles', 'requests', 'resources'].flatMap((kind) => [
  `nodejs_active_${kind}`,
  `nodejs_active_${kind}_total`,
])

const openFiles = 'process_open_fds'

/** What Node and the system tell of the process, as far as a scrape can afford it. */
export function collectProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: lagEveryMs })
  for (const name of [...costly, openFiles]) registry.removeSingleMetric(name)
  new Gauge({
    name: openFiles,
    help: 'Number of open file descriptors.',
    registers: [registry],
    // Not on the event loop, as prom-client's own.
    async collect() {
      const names = await readdir('/proc/self/fd').catch(() => undefined)
      if (names) this.set(names.length - 1) // without the folder's own
    },
  })
}
