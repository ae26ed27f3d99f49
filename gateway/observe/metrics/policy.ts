import { Counter, Gauge, type Registry } from 'prom-client'

export type PolicyMetrics = Readonly<{
  countShadowDifference: (route: string, kind: string) => void
  noteShadowReload: (isGood: boolean) => void
  notePolicyHeld: (isHeld: boolean) => void
  notePolicyChange: (
    change: Readonly<{
      gained: readonly string[]
      lost: readonly string[]
      widened: readonly Readonly<{ route: string }>[]
    }>,
  ) => void
}>

export function createPolicyMetrics(registers: Registry[]): PolicyMetrics {
  const differences = new Counter({
    name: 'sallyport_shadow_differences_total',
    help: 'Requests that the shadow policy decides differently, by kind and by route of the policy in force.',
    labelNames: ['route', 'kind'],
    registers,
  })
  const reload = new Gauge({
    name: 'sallyport_shadow_reload_success',
    help: 'Whether the last reload of the shadow policy succeeded.',
    registers,
  })
  reload.set(1)
  const held = new Gauge({
    name: 'sallyport_policy_held',
    help: 'Whether a valid policy awaits confirmation while the previous policy stays in force.',
    registers,
  })
  held.set(0)
  const changes = new Counter({
    name: 'sallyport_policy_changes_total',
    help: 'Routes that a reload added, removed or opened to more callers, by kind.',
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
