import type { Policy } from '../../policy/compile.ts'
import type { PolicyTexts } from '../../policy/file.ts'
import type { KnownUpstreams } from '../../policy/known-upstreams.ts'
import { parsePolicy } from '../../policy/load.ts'
import { diffPolicies, isAdded, type RouteChange } from './diff.ts'

export type PolicySummary = Readonly<{
  gained: readonly string[]
  lost: readonly string[]
  widened: readonly Widening[]
}>

export type Widening = Readonly<{ route: string; what: string }>

export function summarizeChange(old: Policy, fresh: Policy): PolicySummary {
  const ids = { old: new Set(old.routes.map(({ id }) => id)), new: new Set(fresh.routes.map(({ id }) => id)) }
  const { routes, organizations } = diffPolicies({ old, new: fresh })
  return {
    gained: [...ids.new].filter((id) => !ids.old.has(id)),
    lost: [...ids.old].filter((id) => !ids.new.has(id)),
    widened: [
      ...routes.filter(({ gains }) => gains.length > 0).map(describeWidening),
      ...organizations.filter(isAdded).map(({ what, new: now }) => ({ route: 'none', what: `${what}: ${now}` })),
    ],
  }
}

export function summarizeTexts(directory: string, old: PolicyTexts, fresh: PolicyTexts, upstreams: KnownUpstreams) {
  return summarizeChange(parsePolicy(directory, old, upstreams), parsePolicy(directory, fresh, upstreams))
}

function describeWidening({ new: row, methods, paths, gains }: RouteChange): Widening {
  const roles = [...new Set(gains.map(({ role, relation }) => (relation === '' ? role : `${role} (${relation})`)))]
  const route = row?.route ?? 'none'
  return { route, what: `${methods.join(' ')} ${paths.join(' ')} for ${roles.join(', ')}, by ${route}` }
}
