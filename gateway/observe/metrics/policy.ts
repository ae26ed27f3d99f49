import type { Meter } from './meter.ts'

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

export function createPolicyMetrics({ count, flag }: Meter): PolicyMetrics {
  const metrics = {
    countShadowDifference: count(
      'sallyport_shadow_differences_total',
      'Requests that the shadow policy decides differently, by kind and by route of the policy in force.',
      'route',
      'kind',
    ),
    noteShadowReload: flag(
      'sallyport_shadow_reload_success',
      'Whether the last reload of the shadow policy succeeded.',
    ),
    notePolicyHeld: flag(
      'sallyport_policy_held',
      'Whether a valid policy awaits confirmation while the previous policy stays in force.',
    ),
  }
  // Without a shadow policy no reload of it has failed.
  metrics.noteShadowReload(true)
  metrics.notePolicyHeld(false)
  const countChange = count(
    'sallyport_policy_changes_total',
    'Routes that a reload added, removed or opened to more callers, by kind.',
    'kind',
    'route',
  )
  return {
    ...metrics,
    notePolicyChange: ({ gained, lost, widened }) => {
      for (const route of gained) countChange('gained', route)
      for (const route of lost) countChange('lost', route)
      for (const { route } of widened) countChange('widened', route)
    },
  }
}
