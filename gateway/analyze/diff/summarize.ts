import type { Policy } from '../../policy/compile.ts'
import type { PolicyTexts } from '../../policy/file.ts'
import type { KnownUpstreams } from '../../policy/known-upstreams.ts'
import { parsePolicy } from '../../policy/load.ts'
import { diffPolicies } from './diff.ts'
import { listWidenings, type Widening } from './list-widenings.ts'

export type PolicySummary = Readonly<{
  gained: readonly string[]
  lost: readonly string[]
  widened: readonly Widening[]
}>

export function summarizeChange(old: Policy, fresh: Policy): PolicySummary {
  const ids = { old: new Set(old.routes.map(({ id }) => id)), new: new Set(fresh.routes.map(({ id }) => id)) }
  return {
    gained: [...ids.new].filter((id) => !ids.old.has(id)),
    lost: [...ids.old].filter((id) => !ids.new.has(id)),
    widened: listWidenings(diffPolicies({ old, new: fresh })),
  }
}

export function summarizeTexts(directory: string, old: PolicyTexts, fresh: PolicyTexts, upstreams: KnownUpstreams) {
  return summarizeChange(parsePolicy(directory, old, upstreams), parsePolicy(directory, fresh, upstreams))
}
