import { Counter, Gauge, type Registry } from 'prom-client'

/** What a table that is only tried says. */
export type PolicyMetrics = Readonly<{
  /** By the live table's route, or `none`. */
  countShadowDifference: (route: string, kind: string) => void
  noteShadowReload: (isGood: boolean) => void
  notePolicyHeld: (isHeld: boolean) => void
  /** What a table that was taken changed. */
  notePolicyChange: (
    change: Readonly<{
      gained: readonly string[]
      lost: readonly string[]
      widened: readonly Readonly<{ route: string }>[]
    }>,
  ) => void
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
  const held = new Gauge({
    name: 'sallyport_policy_held',
    help: '1 while good policy files are held back and the table before goes on.',
    registers,
  })
  held.set(0)
  const changes = new Counter({
    name: 'sallyport_policy_changes_total',
    help: 'Routes that a reload brought or took, and those by which it let somebody in who was refused, by kind.',
    labelNames: ['kind', 'route'],
    registers,
  })
  return {
    notePolicyHeld: (isHeld) => held.set(isHeld ? 1 : 0),
    notePolicyChange: ({ gained, lost, widened }) => {
      for (const route of gained) changes.inc({ kind: 'gained', route })
      for (const route of lost) changes.inc({ kind: 'lost', route })
      for (const { route } of widened) changes.inc({ kind: 'widened', route })
    },
    countShadowDifference: (route, kind) => differences.inc({ route, kind }),
    noteShadowReload: (isGood) => reload.set(isGood ? 1 : 0),
  }
}
