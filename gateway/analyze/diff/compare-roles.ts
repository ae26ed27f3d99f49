import type { Roles } from '../../policy/role.ts'
import type { RouteDifference } from './compare-routes.ts'

export function compareRoles(old: Roles, fresh: Roles): readonly RouteDifference[] {
  const before = describeRoles(old)
  const after = describeRoles(fresh)
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...names].flatMap((what) => {
    const difference = { what, old: before[what] ?? 'absent', new: after[what] ?? 'absent' }
    return difference.old === difference.new ? [] : [difference]
  })
}

function describeRoles({ organization, platform, tokenScopes }: Roles): Readonly<Record<string, string>> {
  const abilities = (names: ReadonlySet<string>): string => [...names].sort().join(' ') || 'no abilities'
  return {
    'order of roles': [...organization.keys()].join(' < '),
    ...nameAll('role', organization, (role) => abilities(role.abilities)),
    ...nameAll('platform role', platform, ({ isBypassScope }) => (isBypassScope ? 'bypass scope' : 'no bypass scope')),
    ...nameAll('token scope', tokenScopes, abilities),
  }
}

const nameAll = <Value>(kind: string, all: ReadonlyMap<string, Value>, describe: (value: Value) => string) =>
  Object.fromEntries([...all].map(([name, value]) => [`${kind} ${name}`, describe(value)]))
