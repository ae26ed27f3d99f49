import type { Policy } from '../policy/compile.ts'
import { listLevels } from '../policy/resource-kind.ts'
import { listAskedNames, listPathNames, parsePattern, type Route } from '../policy/route.ts'
import { isCountedAlike } from '../policy/strictness.ts'
import { findCollisions } from '../policy/upstream-paths.ts'
import { headerRole } from '../receive/header-role.ts'

export type Warning = Readonly<{ source: string; message: string }>

const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

const evaluateAbility = 'decisions:evaluate'

export function lintPolicy({ routes, roles, rateLimits }: Policy): readonly Warning[] {
  const required = new Set([evaluateAbility, ...routes.flatMap(({ ability }) => ability ?? [])])
  const unused = [...roles.highest.abilities].filter((ability) => !required.has(ability))
  const open = routes
    .filter(({ isPublic }) => isPublic)
    .map(({ id, source }) => ({
      source,
      message: `route "${id}" is public: it serves requests without a credential`,
    }))
  const unguarded = routes
    .filter(
      ({ isPublic, role, ability, destination }) => !isPublic && !role && !ability && destination.kind !== 'answer',
    )
    .map(({ id, source }) => ({
      source,
      message: `route "${id}" requires neither role nor ability: every authenticated caller passes`,
    }))
  const roleOnly = routes
    .filter(({ role, ability }) => role && ability === undefined)
    .map(({ id, source }) => ({
      source,
      message: `route "${id}" requires a role and no ability: every API token of a holder passes`,
    }))
  const changing = routes
    .filter(
      ({ resource, methods }) =>
        resource?.kind === 'object' && resource.isPublic && [...methods].some((method) => !safeMethods.has(method)),
    )
    .map(({ id, source }) => ({
      source,
      message: `route "${id}" takes public resources of other organizations, and a method that changes state`,
    }))
  const mute = routes
    .filter(({ resource }) => resource?.place.in === 'header' && headerRole(resource.place.name).kind !== 'pass')
    .map(({ id, source, resource }) => ({
      source,
      message: `route "${id}" never gets the header "${resource?.place.name}": all its responses are 404`,
    }))
  const trusting = [...findCountedApart(routes), ...routes.flatMap(findUnguarded)]
  const rewritten = routes
    .filter(({ rewrite }) => rewrite)
    .map(({ id, source }) => ({
      source,
      message: `route "${id}" rewrites its path: a proxy that asks the decision listener forwards the client's path`,
    }))
  const idle = unused.map((ability) => ({ source: 'roles', message: `no route requires the ability "${ability}"` }))
  const limiting = new Set(routes.flatMap(({ rateLimit }) => rateLimit?.name ?? []))
  const unnamed = [...rateLimits.keys()]
    .filter((name) => !limiting.has(name))
    .map((name) => ({ source: 'rateLimits', message: `no route names the rate limit "${name}"` }))
  return [...open, ...unguarded, ...roleOnly, ...changing, ...rewritten, ...mute, ...trusting, ...idle, ...unnamed]
}

const findCountedApart = (routes: readonly Route[]): readonly Warning[] =>
  findCollisions(routes, (one, other) => isCountedAlike(one, other) && isCountedAlike(other, one)).map(
    ({ claim: { route }, other, path }) => ({
      source: route.source,
      message: `routes "${route.id}" and "${other.route.id}" reach /${path.join('/')} at one upstream, and count it apart`,
    }),
  )

function findUnguarded(route: Route): readonly Warning[] {
  const { id, source, resource } = route
  const isNested = resource?.kind === 'object' && listLevels(resource.object).length > 1 + resource.parents.length
  return listUnguarded(route).map(({ name }) => {
    const part = name === '*' ? '*' : `:${name}`
    const advice =
      isNested && name !== '*'
        ? `"parents" of its resource leaves it out, so another ancestor passes`
        : 'no resource guards it, so its backend alone judges whose it is'
    return { source, message: `route "${id}" takes ${part} from the path: ${advice}` }
  })
}

export type UnguardedSegment = Readonly<{ name: string; index: number }>

export function listUnguarded({ path, isPublic, destination, ...route }: Route): readonly UnguardedSegment[] {
  if (isPublic || destination.kind !== 'upstream') return []
  const { resource, organizationParam, unguarded, questions } = route
  const guarded = resource ? listPathNames(resource) : []
  const checked = new Set([organizationParam, ...guarded, ...listAskedNames(questions), ...unguarded.keys()])
  return parsePattern(path).flatMap((segment, index) => {
    if (segment.kind === 'literal') return []
    const name = segment.kind === 'rest' ? '*' : segment.name
    return checked.has(name) ? [] : [{ name, index }]
  })
}
