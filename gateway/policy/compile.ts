// Policies: read, checked and compiled into the routes, roles and resources that the stages obey.
import { compileResources } from './compile-resources.ts'
import { compileRoles } from './compile-roles.ts'
import { compileRoute } from './compile-route.ts'
import { ConfigurationError, type Problem } from './configuration-error.ts'
import type { PolicyFile, RouteContent } from './file.ts'
import { type KnownUpstreams, nameSharedPlaces } from './known-upstreams.ts'
import { compileOrganizations, type DeclaredOrganizations } from './organizations.ts'
import type { RateLimit } from './rate-limit.ts'
import type { ResourceKinds } from './resource-kind.ts'
import type { Roles } from './role.ts'
import { type PatternSegment, parsePattern, type Route } from './route.ts'
import { type Claim, findCollisions } from './upstream-paths.ts'

export type Policy = Readonly<{
  roles: Roles
  organizations: DeclaredOrganizations
  rateLimits: ReadonlyMap<string, RateLimit>
  resources: ResourceKinds
  routes: readonly Route[]
}>

export function compilePolicy(files: readonly PolicyFile[], upstreams: KnownUpstreams, isTried = false): Policy {
  const problems: Problem[] = []
  const roles = compileRoles(files, problems)
  if (!roles) throw new ConfigurationError(problems)
  const organizations = compileOrganizations(files, problems)
  const rateLimits = compileRateLimits(files, problems)
  const resources = compileResources(files, roles, problems)
  const known = { roles, upstreams, placeOf: nameSharedPlaces(upstreams), rateLimits, resources }
  const routes: Route[] = []
  const takenIds = new Map<string, string>()
  const takenPatterns = new Map<string, string>()
  const reports = new Map<Route, (message: string) => void>()
  for (const { name, content, routeLines, problemAt } of files) {
    for (const [index, row] of (content.routes ?? []).entries()) {
      const report = (path: readonly (string | number)[], message: string): void => {
        problems.push(problemAt(['routes', index, ...path], `route "${row.id}": ${message}`))
      }
      const route = compileRoute(row, `${name}:${routeLines[index]}`, known, report)
      if (!route) continue
      for (const other of claim(takenIds, [row.id], route)) report(['id'], `the id is taken by ${other}`)
      for (const other of claim(takenPatterns, patternKeys(route), route))
        report(['match'], `matches the same requests as ${other}; one of them would never be reached`)
      routes.push(route)
      reports.set(route, (message) => report([nameRewrite(row)], message))
    }
  }
  if (problems.length === 0 && !isTried)
    for (const { claim, other, path } of findCollisions(routes))
      reports.get(claim.route)?.(describeCollision(claim, other, path))
  if (problems.length > 0) throw new ConfigurationError(problems)
  return Object.freeze({ roles, organizations, rateLimits, resources, routes: Object.freeze(routes) })
}

const nameRewrite = ({ rewrite, stripPrefix }: RouteContent): string =>
  rewrite !== undefined ? 'rewrite' : stripPrefix !== undefined ? 'stripPrefix' : 'match'

const describeCollision = (claim: Claim, other: Claim, path: readonly string[]): string =>
  `/${claim.path.join('/')} reaches the upstream as /${path.join('/')}, as /${other.path.join('/')} of route ` +
  `"${other.route.id}" (${other.route.source}) does; give both the same requirements, or rewrite one elsewhere`

function claim(taken: Map<string, string>, keys: readonly string[], route: Route): ReadonlySet<string> {
  const others = new Set<string>()
  for (const key of keys) {
    const other = taken.get(key)
    if (other === undefined) taken.set(key, `"${route.id}" (${route.source})`)
    else others.add(other)
  }
  return others
}

/** Two patterns match the same requests if only the names of their parameters differ. */
function patternKeys(route: Route): readonly string[] {
  const shape = parsePattern(route.path).map(segmentKey).join('/')
  return [...route.methods].map((method) => `${method} ${route.host ?? '*'} ${shape}`)
}

function segmentKey(segment: PatternSegment): string {
  switch (segment.kind) {
    case 'literal':
      return encodeURIComponent(segment.text)
    case 'param':
      return ':'
    case 'rest':
      return '*'
  }
}

function compileRateLimits(files: readonly PolicyFile[], problems: Problem[]): ReadonlyMap<string, RateLimit> {
  const limits = new Map<string, RateLimit>()
  for (const { content, problemAt } of files)
    for (const [name, limit] of Object.entries(content.rateLimits ?? {})) {
      if (limits.has(name))
        problems.push(problemAt(['rateLimits', name], `the rate limit "${name}" is listed twice; keep one`))
      limits.set(name, Object.freeze({ name, ...limit }))
    }
  return limits
}
