import type { DeclaredOrganizations } from '../../policy/organizations.ts'
import type { Roles } from '../../policy/role.ts'
import { listWidened, organizationFields, roleFields } from './classified-fields.ts'
import type { RouteDifference } from './compare-routes.ts'

export const compareRoles = (old: Roles, fresh: Roles): readonly RouteDifference[] =>
  compareTexts(describeRoles(old), describeRoles(fresh), (what) => listWidened(roleFields, old, fresh).includes(what))

export const compareOrganizations = (
  old: DeclaredOrganizations,
  fresh: DeclaredOrganizations,
): readonly RouteDifference[] => {
  const wider = listWidened(organizationFields, old, fresh)
  return compareTexts(
    describeOrganizations(old),
    describeOrganizations(fresh),
    (what, now) => now !== 'absent' && wider.some((kind) => what.startsWith(`${kind} `)),
  )
}

type Texts = Readonly<Record<string, string>>

function compareTexts(
  before: Texts,
  after: Texts,
  widens: (what: string, now: string) => boolean,
): readonly RouteDifference[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...names].flatMap((what) => {
    const difference = { what, old: before[what] ?? 'absent', new: after[what] ?? 'absent' }
    if (difference.old === difference.new) return []
    return [widens(what, difference.new) ? { ...difference, widens: true as const } : difference]
  })
}

function describeRoles({ organization, platform, tokenScopes, meanings }: Roles): Readonly<Record<string, string>> {
  const abilities = (names: ReadonlySet<string>): string => [...names].sort().join(' ') || 'no abilities'
  return {
    'order of roles': [...organization.keys()].join(' < '),
    ...nameAll('role', organization, (role) => abilities(role.abilities)),
    ...nameAll('platform role', platform, ({ isBypassScope }) => (isBypassScope ? 'bypass scope' : 'no bypass scope')),
    ...nameAll('token scope', tokenScopes, abilities),
    'role that executes': meanings.executes.slug,
    'role that reads': meanings.reads.slug,
    'role that writes': meanings.writes.slug,
    'abilities that write': meanings.writeAbilities ? abilities(meanings.writeAbilities) : 'names that end in :write',
    'role that manages': meanings.manages.slug,
    'abilities that manage': abilities(meanings.manageAbilities),
    'role that owns': meanings.owns.slug,
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
