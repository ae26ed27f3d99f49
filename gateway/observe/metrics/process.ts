import { readdir, stat } from 'node:fs/promises'
import { collectDefaultMetrics, type Registry } from 'prom-client'
import type { Meter } from './meter.ts'

/**
 * These metrics walk through every handle of the process. With 10,000 connections each scrape blocks all requests for
 * 50 ms.
 */
const costly = ['handles', 'requests', 'resources'].flatMap((kind) => [
  `nodejs_active_${kind}`,
  `nodejs_active_${kind}_total`,
])

const openFiles = 'process_open_fds'

export function collectProcessMetrics(registry: Registry, { collect }: Meter): void {
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: lagEveryMs })
  for (const name of [...costly, openFiles]) registry.removeSingleMetric(name)
  collect(openFiles, 'Number of open file descriptors.', [], async (gauge) => {
    const count = await countDescriptors().catch(() => undefined)
    if (count !== undefined) gauge.set(count)
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

export function createBuildMetrics({ gauge }: Meter): BuildMetrics {
  const info = gauge(
    'sallyport_build_info',
    'Constant 1, with the versions of the gateway and of Node as labels.',
    'version',
    'node',
  )
  return { noteBuild: (build) => info.set({ ...build }, 1) }
}

export type FaultMetrics = Readonly<{ countFault: (component: string) => void }>

export const createFaultMetrics = ({ count }: Meter): FaultMetrics => ({
  countFault: count(
    'sallyport_callback_errors_total',
    'Exceptions in callbacks of sockets, timers and connections; each ended its own connection or task alone.',
    'component',
  ),
})

/** Sampling interval of the event loop, which wakes an idle gateway; also the smallest lag that is measured. */
export const lagEveryMs = 50
