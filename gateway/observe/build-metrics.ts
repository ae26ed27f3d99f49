import { Gauge, type Registry } from 'prom-client'

/** What this process runs on. */
export type Build = Readonly<{ version: string; node: string }>

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
