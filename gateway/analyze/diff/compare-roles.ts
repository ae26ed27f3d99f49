import type { DeclaredOrganizations } from '../../policy/organizations.ts'
import type { Roles } from '../../policy/role.ts'
import type { RouteDifference } from './compare-routes.ts'

export const compareRoles = (old: Roles, fresh: Roles): readonly RouteDifference[] =>
  compareTexts(describeRoles(old), describeRoles(fresh))

export const compareOrganizations = (
  old: DeclaredOrganizations,
  fresh: DeclaredOrganizations,
): readonly RouteDifference[] => compareTexts(describeOrganizations(old), describeOrganizations(fresh))

type Texts = Readonly<Record<string, string>>

function compareTexts(before: Texts, after: Texts): readonly RouteDifference[] {
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

const describeOrganizations = ({ bySlug, byClaim }: DeclaredOrganizations): Texts => ({
  ...nameAll('organization', bySlug, ({ id, accountType }) => `id ${id}, ${accountType}`),
  ...Object.fromEntries(
    [...byClaim].flatMap(([issuer, values]) =>
      [...values].map(([value, { id }]) => [`value ${JSON.stringify(value)} of ${issuer}`, `id ${id}`]),
    ),
  ),
})

const nameAll = <Value>(kind: string, all: ReadonlyMap<string, Value>, describe: (value: Value) => string) =>
  Object.fromEntries([...all].map(([name, value]) => [`${kind} ${name}`, describe(value)]))
