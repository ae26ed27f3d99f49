import type { Policy } from '../policy/compile.ts'
import { listDecidingNames } from '../policy/deciding-values.ts'
import { listLevels } from '../policy/resource-kind.ts'
import type { Roles } from '../policy/role.ts'
import { listAskedNames, listPathNames, parsePattern, type Route } from '../policy/route.ts'
import { isCountedAlike } from '../policy/strictness.ts'
import { findCollisions } from '../policy/upstream-paths.ts'
import { headerRole } from '../stages/receive/header-role.ts'
import { findAvoidedHosts } from './avoided-hosts.ts'
import { warnOfHostLabels } from './host-labels.ts'

export type Warning = Readonly<{ source: string; message: string }>

const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

const evaluateAbility = 'decisions:evaluate'

export function lintPolicy({ routes, roles, rateLimits, organizations }: Policy): readonly Warning[] {
  const required = listRequired(routes, roles)
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
  const roleOnly = routes.filter(isByRoleAlone).map(({ id, source }) => ({
    source,
    message: `route "${id}" requires a role and no ability: every API token of a holder passes, and every JWT with scopes`,
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
  const trusting = [
    ...findCountedApart(routes),
    ...warnOfAvoidedHosts(routes),
    ...warnOfHostLabels(routes, organizations),
    ...routes.flatMap(findUnguarded),
    ...routes.flatMap(findMovedIds),
  ]
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
  const minting = findNarrowMinters(routes, roles)
  return [
    ...[...open, ...unguarded, ...roleOnly, ...changing, ...rewritten, ...mute, ...trusting],
    ...[...minting, ...idle, ...unnamed],
  ]
}

function listRequired(routes: readonly Route[], { meanings }: Roles): ReadonlySet<string> {
  const { writeAbilities = [], manageAbilities } = meanings
  const ofRoutes = routes.flatMap(({ ability }) => ability ?? [])
  return new Set([evaluateAbility, ...writeAbilities, ...manageAbilities, ...ofRoutes])
}

export const isByRoleAlone = ({ role, ability }: Route): boolean => role !== undefined && ability === undefined

/** A token mints no scope with an ability that it lacks itself. */
function findNarrowMinters(routes: readonly Route[], { tokenScopes }: Roles): readonly Warning[] {
  const isMint = ({ destination }: Route) => destination.kind === 'answer' && destination.name === 'tokens.mint'
  return routes.filter(isMint).flatMap(({ id, source, ability }) =>
    [...tokenScopes].flatMap(([scope, held]) => {
      if (ability !== undefined && !held.has(ability)) return []
      const beyond = [...tokenScopes].filter(([, wanted]) => [...wanted].some((one) => !held.has(one)))
      const names = beyond.map(([name]) => `"${name}"`).join(', ')
      const message = `tokens of scope "${scope}" pass route "${id}", but mint none of ${names}: they lack an ability of it`
      return beyond.length === 0 ? [] : [{ source, message }]
    }),
  )
}

const findCountedApart = (routes: readonly Route[]): readonly Warning[] =>
  findCollisions(routes, (one, other) => isCountedAlike(one, other) && isCountedAlike(other, one)).map(
    ({ claim: { route }, other, path }) => ({
      source: route.source,
      message: `routes "${route.id}" and "${other.route.id}" reach /${path.join('/')} at one upstream, and count it apart`,
    }),
  )

const warnOfAvoidedHosts = (routes: readonly Route[]): readonly Warning[] =>
  findAvoidedHosts(routes).map(({ avoided, by, host, path, isWider }) => {
    const place = host === undefined ? 'a host that no route names' : `host "${host}"`
    const harm = isWider ? `admits callers whom "${avoided.id}" refuses` : 'counts them apart'
    const message = `route "${avoided.id}" is avoided by ${place}: there "${by.id}" leads ${path} to the same destination, and ${harm}`
    return { source: avoided.source, message }
  })

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

/** There a slash in the free name would move another name to the id's place. */
function findMovedIds(route: Route): readonly Warning[] {
  const { id, source, path, takesEncodedSlashes } = route
  const names = listDecidingNames(route)
  const segments = parsePattern(path)
  if (!takesEncodedSlashes || segments.at(-1)?.kind !== 'rest') return []
  const params = segments.flatMap((segment) => (segment.kind === 'param' ? segment.name : []))
  const free = params.find((name) => !names.includes(name))
  const judged =
    free === undefined ? undefined : params.slice(params.indexOf(free)).find((name) => names.includes(name))
  const message = `route "${id}" refuses %2F in "${free}", since a server could read another "${judged}"`
  return judged === undefined ? [] : [{ source, message }]
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
