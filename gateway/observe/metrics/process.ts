import { readdir, stat } from 'node:fs/promises'
import { Counter, collectDefaultMetrics, Gauge, type Registry } from 'prom-client'

/**
 * These metrics walk through every handle of the process. With 10,000 connections each scrape blocks all requests for
 * 50 ms.
 */
const costly = ['handles', 'requests', 'resources'].flatMap((kind) => [
  `nodejs_active_${kind}`,
  `nodejs_active_${kind}_total`,
])

const openFiles = 'process_open_fds'

export function collectProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: lagEveryMs })
  for (const name of [...costly, openFiles]) registry.removeSingleMetric(name)
  new Gauge({
    name: openFiles,
    help: 'Number of open file descriptors.',
    registers: [registry],
    async collect() {
      const count = await countDescriptors().catch(() => undefined)
      if (count !== undefined) this.set(count)
    },
  })
}

const descriptors = '/proc/self/fd'

/**
 * Since Linux 6.2 the folder's size is the number of descriptors. Older systems list the names, which takes 8 ms for
 * 18,000.
 */
async function countDescriptors(): Promise<number> {
  const { size } = await stat(descriptors)
  return size > 0 ? size : (await readdir(descriptors)).length - 1
}

type Build = Readonly<{ version: string; node: string }>

export type BuildMetrics = Readonly<{ noteBuild: (build: Build) => void }>

export function createBuildMetrics(registers: Registry[]): BuildMetrics {
  const info = new Gauge({
    name: 'sallyport_build_info',
    help: 'Constant 1, with the versions of the gateway and of Node as labels.',
    labelNames: ['version', 'node'],
    registers,
  })
  return { noteBuild: (build) => info.set({ ...build }, 1) }
}

export type FaultMetrics = Readonly<{ countFault: (component: string) => void }>

export function createFaultMetrics(registers: Registry[]): FaultMetrics {
  const faults = new Counter({
    name: 'sallyport_callback_errors_total',
    help: 'Exceptions in callbacks of sockets, timers and connections; each ended its own connection or task alone.',
    labelNames: ['component'],
    registers,
  })
  return { countFault: (component) => faults.inc({ component }) }
}

/** Sampling interval of the event loop, which wakes an idle gateway; also the smallest lag that is measured. */
export const lagEveryMs = 50
