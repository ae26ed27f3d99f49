import { Counter, Gauge, type Registry } from 'prom-client'

/** What a table that is only tried says. */
export type PolicyMetrics = Readonly<{
  /** By the live table's route, or `none`. */
  countShadowDifference: (route: string, kind: string) => void
  noteShadowReload: (isGood: boolean) => void
}>

/** Without a shadow table there are no differences, and nothing is wrong with it. */
export function createPolicyMetrics(registers: Registry[]): PolicyMetrics {
  const differences = new Counter({
    name: 'sallyport_shadow_differences_total',
    help: 'Requests that the shadow table would have judged otherwise, by the route of the table in force and by kind.',
    labelNames: ['route', 'kind'],
    registers,
  })
  const reload = new Gauge({
    name: 'sallyport_shadow_reload_success',
    help: '0 while the files of the shadow table are no good.',
    registers,
  })
  reload.set(1)
  return {
    countShadowDifference: (route, kind) => differences.inc({ route, kind }),
    noteShadowReload: (isGood) => reload.set(isGood ? 1 : 0),
  }
}
