// The difference of two policies by what callers may do: each kind of request is judged under both.
import { listRegions, type Region } from '../../policy/regions.ts'
import { type Method, methods, type Route } from '../../policy/route.ts'
import { compileRoutes } from '../../stages/route/table.ts'
import { findRoute } from '../find-route.ts'
import type { ComparedPart } from './classified-fields.ts'
import { type Access, compareAccess } from './compare-access.ts'
import { compareOrganizations, compareRoles } from './compare-roles.ts'
import { compareRoutes, type RouteDifference } from './compare-routes.ts'
import { listWidenings } from './list-widenings.ts'
import { namePaths } from './name-paths.ts'
import { findOpenedReadings, type OpenedReading } from './other-readings.ts'
import type { PolicyPair, RoutePair } from './pairs.ts'

/** Requests that are judged or treated differently, with the routes that match them; undefined where no route does. */
export type RouteChange = Access &
  Readonly<{
    paths: readonly string[]
    methods: readonly Method[]
    old: RouteName | undefined
    new: RouteName | undefined
    other: readonly RouteDifference[]
  }>

export type RouteName = Readonly<{ route: string; source: string }>

export type PolicyDiff = Readonly<{
  isWidened: boolean
  routes: readonly RouteChange[]
  roles: readonly RouteDifference[]
  /** All but removals may give a caller of claims more rights. */
  organizations: readonly RouteDifference[]
}>

export function diffPolicies(policies: PolicyPair): PolicyDiff {
  const groups = groupRequests(policies)
  const routes = [
    ...[...groups].flatMap(([, group]) => describeGroup(policies, group, groups)),
    ...findOpenedReadings([...groups.values()]).flatMap((opened) => describeOpened(opened, groups)),
  ]
  const roles = compareRoles(policies.old.roles, policies.new.roles)
  const organizations = compareOrganizations(policies.old.organizations, policies.new.organizations)
  const changes = { routes, roles, organizations } satisfies Record<ComparedPart, unknown>
  return { isWidened: listWidenings(changes).length > 0, ...changes }
}

type Group = RoutePair & Readonly<{ regions: ReadonlyMap<Method, Region[]> }>

function groupRequests(policies: PolicyPair): ReadonlyMap<string, Group> {
  const tables = { old: compileRoutes(policies.old.routes), new: compileRoutes(policies.new.routes) }
  const groups = new Map<string, Group>()
  for (const region of listRegions([...policies.old.routes, ...policies.new.routes]))
    for (const method of methods) {
      const found = { old: findRoute(tables.old, region, method), new: findRoute(tables.new, region, method) }
      const key = JSON.stringify([found.old?.id, found.new?.id])
      const group = groups.get(key) ?? { ...found, regions: new Map(methods.map((name) => [name, []])) }
      groups.set(key, group)
      group.regions.get(method)?.push(region)
    }
  return groups
}

function describeGroup(policies: PolicyPair, group: Group, all: ReadonlyMap<string, Group>): readonly RouteChange[] {
  const { old, new: fresh } = group
  const access = compareAccess(policies, group)
  const other = old && fresh ? compareRoutes(old, fresh) : []
  if (access.gains.length + access.losses.length + other.length === 0) return []
  return [...groupMethods(group, all)].map(([paths, taken]) => ({
    paths: JSON.parse(paths) as readonly string[],
    methods: taken,
    old: nameRoute(old),
    new: nameRoute(fresh),
    ...access,
    other,
  }))
}

/** The route that was dropped judged these spellings too, and refused them. */
const describeOpened = (
  { dropped, by, regions }: OpenedReading,
  all: ReadonlyMap<string, Group>,
): readonly RouteChange[] =>
  [...groupMethods({ old: dropped, new: undefined, regions }, all)].map(([paths, taken]) => ({
    paths: JSON.parse(paths) as readonly string[],
    methods: taken,
    old: nameRoute(dropped),
    new: nameRoute(by),
    gains: [],
    losses: [],
    other: [{ what: 'other spellings', old: 'refused', new: 'may pass', widens: true }],
  }))

const nameRoute = (route: Route | undefined): RouteName | undefined =>
  route && { route: route.id, source: route.source }

function groupMethods(group: Group, all: ReadonlyMap<string, Group>): ReadonlyMap<string, readonly Method[]> {
  const byPaths = new Map<string, Method[]>()
  for (const [method, regions] of group.regions) {
    if (regions.length === 0) continue
    const whole = [group.new, group.old].find((route) => route && countRegions(route, method, all) === regions.length)
    const paths = whole ? [`${whole.host ?? ''}${whole.path}`] : namePaths(regions, group)
    const key = JSON.stringify(paths)
    byPaths.set(key, [...(byPaths.get(key) ?? []), method])
  }
  return byPaths
}

const countRegions = (route: Route, method: Method, all: ReadonlyMap<string, Group>): number =>
  [...all.values()]
    .filter((group) => group.old === route || group.new === route)
    .reduce((count, group) => count + (group.regions.get(method)?.length ?? 0), 0)
