import type { Access } from './compare-access.ts'
import type { RouteDifference } from './compare-routes.ts'

export type Widening = Readonly<{ route: string; what: string }>

type ChangedRequests = Pick<Access, 'gains'> &
  Readonly<{
    paths: readonly string[]
    methods: readonly string[]
    new: Readonly<{ route: string }> | undefined
    other: readonly RouteDifference[]
  }>

type PolicyChanges = Readonly<{
  routes: readonly ChangedRequests[]
  roles: readonly RouteDifference[]
  organizations: readonly RouteDifference[]
}>

/** All that may admit a refused request or lead a permitted one elsewhere, for commands, log, console and hold alike. */
export const listWidenings = ({ routes, roles, organizations }: PolicyChanges): readonly Widening[] => [
  ...routes.filter(({ gains }) => gains.length > 0).map(describeGain),
  ...routes.flatMap((change) =>
    change.other.filter(({ widens }) => widens).map((other) => describeOther(change, other)),
  ),
  ...roles.filter(({ widens }) => widens).map(describeFact),
  ...organizations.filter(({ widens }) => widens).map(describeFact),
]

function describeGain({ new: row, methods, paths, gains }: ChangedRequests): Widening {
  const roles = [...new Set(gains.map(({ role, relation }) => (relation === '' ? role : `${role} (${relation})`)))]
  const route = row?.route ?? 'none'
  return { route, what: `${methods.join(' ')} ${paths.join(' ')} for ${roles.join(', ')}, by ${route}` }
}

function describeOther(
  { new: row, methods, paths }: ChangedRequests,
  { what, old, new: now }: RouteDifference,
): Widening {
  const route = row?.route ?? 'none'
  return { route, what: `${methods.join(' ')} ${paths.join(' ')} with ${what}: ${old} -> ${now}, by ${route}` }
}

const describeFact = ({ what, new: now }: RouteDifference): Widening => ({ route: 'none', what: `${what}: ${now}` })
