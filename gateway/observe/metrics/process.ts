import { readdir, stat } from 'node:fs/promises'
import { Counter, collectDefaultMetrics, Gauge, type Registry } from 'prom-client'

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
    async collect() {
      const count = await countDescriptors().catch(() => undefined)
      if (count !== undefined) this.set(count)
    },
  })
}

const descriptors = '/proc/self/fd'

/** From Linux 6.2 on the folder's size is their number. Older systems give a name for each, which takes 8 ms of 18,000. */
async function countDescriptors(): Promise<number> {
  const { size } = await stat(descriptors)
  return size > 0 ? size : (await readdir(descriptors)).length - 1 // without the folder's own
}

/** What this process runs on. */
type Build = Readonly<{ version: string; node: string }>

export type BuildMetrics = Readonly<{ noteBuild: (build: Build) => void }>

/** Always 1; what there is to know stands in its labels, to be joined to other series. */
export function createBuildMetrics(registers: Registry[]): BuildMetrics {
  const info = new Gauge({
    name: 'sallyport_build_info',
    help: 'Always 1: the version of the gateway, and that of Node.',
    labelNames: ['version', 'node'],
    registers,
  })
  return { noteBuild: (build) => info.set({ ...build }, 1) }
}

export type FaultMetrics = Readonly<{ countFault: (component: string) => void }>

/** What a callback threw: a bug that ended one connection or one piece of work, and not the process. */
export function createFaultMetrics(registers: Registry[]): FaultMetrics {
  const faults = new Counter({
    name: 'sallyport_callback_errors_total',
    help: 'Callbacks of sockets, timers and connections that threw; each ended its own connection or work.',
    labelNames: ['component'],
    registers,
  })
  return { countFault: (component) => faults.inc({ component }) }
}

/** How often the event loop is timed, which wakes a gateway that has nothing else to do; also the least lag that is told. */
export const lagEveryMs = 50
