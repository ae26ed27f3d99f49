import type { StreamRules } from '../base/errors/surface.ts'
import type { RouteContent } from './file.ts'
import { wildcardDomain } from './host.ts'
import type { KnownUpstreams } from './known-upstreams.ts'
import { suggestName } from './near-name.ts'
import { compileRewrite } from './path-rewrite.ts'
import { compileQuestions } from './questions.ts'
import type { RateLimit } from './rate-limit.ts'
import { listLevels, type ResourceKinds } from './resource-kind.ts'
import type { OrganizationRole, Roles } from './role.ts'
import {
  type Destination,
  type GuardedResource,
  type IdPlace,
  listPathNames,
  type Method,
  methods,
  type PathRewrite,
  parsePattern,
  type Route,
} from './route.ts'

type Report = (path: readonly (string | number)[], message: string) => void

type Known = Readonly<{
  roles: Roles
  upstreams: KnownUpstreams
  placeOf: (upstream: string) => string
  rateLimits: ReadonlyMap<string, RateLimit>
  resources: ResourceKinds
}>

export function compileRoute(
  row: RouteContent,
  source: string,
  { roles, upstreams, placeOf, rateLimits, resources }: Known,
  report: Report,
): Route | undefined {
  let isValid = true
  const refuse: Report = (path, message) => {
    isValid = false
    report(path, message)
  }
  const names = readParamNames(row, refuse)
  const destination = readDestination(row, { upstreams, placeOf }, names, refuse)
  const role = readRole(row, roles, refuse)
  checkAbility(row, roles, refuse)
  const rateLimit = readRateLimit(row, rateLimits, refuse)
  checkPublic(row, refuse)
  checkOwned(row, refuse)
  const stream = readStream(row, refuse)
  if (row.keepAlive === false && row.surface === 'model')
    refuse(['keepAlive'], 'event streams of the model surface are always kept open; remove "keepAlive"')
  checkHost(row, refuse)
  checkOrganization(row, names, refuse)
  const resource = readResource(row, resources, names, refuse)
  checkUnguarded(row, resource, names, refuse)
  checkParam(row.decision?.resource?.param, ['decision', 'resource', 'param'], names, refuse)
  const questions = compileQuestions(row, resource, refuse)
  const rewrite = isValid ? readRewrite(row, upstreams, refuse) : undefined
  if (!isValid || !destination) return undefined
  return Object.freeze({
    id: row.id,
    source,
    host: row.match.host,
    path: row.match.path,
    methods: expandMethods(row.match.methods ?? methods),
    surface: row.surface,
    stream,
    isPublic: row.access === 'public',
    destination,
    rewrite,
    role,
    ability: row.require?.ability,
    organizationParam: row.organization?.param,
    hostLabel: row.organization?.hostLabel,
    resource,
    unguarded: new Map(Object.entries(row.unguarded ?? {})),
    questions,
    isWebSocket: row.websocket === true,
    isKeptAlive: row.keepAlive !== false,
    takesEncodedSlashes: row.encodedSlashes === 'allow',
    rateLimit,
    bodyLimitBytes: row.limits?.bodyBytes,
    headLimits: row.limits ?? {},
    timeouts: row.timeouts ?? {},
  })
}

const expandMethods = (listed: readonly Method[]): ReadonlySet<Method> =>
  new Set(listed.includes('GET') ? [...listed, 'HEAD'] : listed)

function readStream({ stream, surface }: RouteContent, refuse: Report): StreamRules | undefined {
  if (stream === undefined) return undefined
  if (surface !== 'model') refuse(['stream'], `only routes of the model surface may have "stream", not "${surface}"`)
  const { kind, end = 'marker' } = typeof stream === 'string' ? { kind: stream } : stream
  if (end === 'finishReason' && kind !== 'chat')
    refuse(['stream', 'end'], 'only chat has choices with a finish_reason; make the kind chat, or remove "end"')
  return { kind, end }
}

function readParamNames(row: RouteContent, refuse: Report): ReadonlySet<string> {
  try {
    return new Set(
      parsePattern(row.match.path).flatMap((segment) =>
        segment.kind === 'param' ? segment.name : segment.kind === 'rest' ? '*' : [],
      ),
    )
  } catch (error) {
    refuse(['match', 'path'], (error as Error).message)
    return new Set()
  }
}

/** A domain that ends in a number would be that of an IPv4 address (URL Standard 3.5). */
function checkHost({ match: { host = '' } }: RouteContent, refuse: Report): void {
  const domain = wildcardDomain(host)
  if (domain !== undefined && /(?:^|\.)(?:\d+|0x[0-9a-f]*)$/.test(domain))
    refuse(['match', 'host'], `"${host}" would be addresses; write a wildcard before a domain name`)
}

function checkOrganization({ organization, match }: RouteContent, names: ReadonlySet<string>, refuse: Report): void {
  if (!organization) return
  const { param, hostLabel } = organization
  if ((param === undefined) === (hostLabel === undefined))
    refuse(['organization'], 'must have exactly one of param and hostLabel')
  checkParam(param, ['organization', 'param'], names, refuse)
  if (hostLabel !== undefined && wildcardDomain(match.host ?? '') === undefined)
    refuse(['organization', 'hostLabel'], 'needs a wildcard in "match.host", such as "*.app.example": no label is free')
}

function readDestination(
  row: RouteContent,
  { upstreams, placeOf }: Pick<Known, 'upstreams' | 'placeOf'>,
  names: ReadonlySet<string>,
  refuse: Report,
): Destination | undefined {
  const { upstream, cluster, answer } = row
  if ([upstream, cluster, answer].filter((part) => part !== undefined).length !== 1) {
    refuse([], 'must have exactly one of upstream, cluster and answer')
    return undefined
  }
  if (answer !== undefined) return { kind: 'answer', name: answer }
  if (cluster !== undefined) {
    checkParam(cluster.param, ['cluster', 'param'], names, refuse)
    if (!names.has('*')) refuse(['match', 'path'], 'a cluster route must end in /*, the part that it forwards')
    return { kind: 'cluster', param: cluster.param }
  }
  const name = upstream ?? ''
  if (upstreams.has(name)) {
    const place = placeOf(name)
    return place === name ? { kind: 'upstream', name } : { kind: 'upstream', name, place }
  }
  refuse(['upstream'], `upstream "${name}" is not configured; ${suggestName(name, upstreams.keys())}`)
  return undefined
}

function readRewrite(row: RouteContent, upstreams: KnownUpstreams, refuse: Report): PathRewrite | undefined {
  if (row.upstream !== undefined) return compileRewrite(row, upstreams.get?.(row.upstream)?.basePath ?? '', refuse)
  for (const key of ['stripPrefix', 'rewrite'] as const)
    if (row[key] !== undefined) refuse([key], `only a route with "upstream" may have "${key}"`)
  return undefined
}

function readRole(row: RouteContent, roles: Roles, refuse: Report): OrganizationRole | undefined {
  const slug = row.require?.role
  if (slug === undefined) return undefined
  const role = roles.organization.get(slug)
  if (!role)
    refuse(['require', 'role'], `role "${slug}" is not listed; ${suggestName(slug, roles.organization.keys())}`)
  return role
}

function readRateLimit(
  row: RouteContent,
  rateLimits: ReadonlyMap<string, RateLimit>,
  refuse: Report,
): RateLimit | undefined {
  if (row.rateLimit === undefined) return undefined
  const limit = rateLimits.get(row.rateLimit)
  if (!limit)
    refuse(
      ['rateLimit'],
      `rate limit "${row.rateLimit}" is not listed; ${suggestName(row.rateLimit, rateLimits.keys())}`,
    )
  else if (row.access === 'public' && (limit.by === 'principal' || limit.by === 'organization'))
    refuse(['rateLimit'], `a public route has no caller, so it cannot be limited by ${limit.by}`)
  return limit
}

function readResource(
  { resource }: RouteContent,
  kinds: ResourceKinds,
  names: ReadonlySet<string>,
  refuse: Report,
): GuardedResource | undefined {
  if (!resource) return undefined
  const { kind, parents = [], public: isPublic = false } = resource
  const place = readIdPlace(resource, names, refuse)
  if (!place) return undefined
  for (const [index, name] of parents.entries()) checkParam(name, ['resource', 'parents', index], names, refuse)
  if (kind === 'agent') {
    if (resource.parents) refuse(['resource', 'parents'], 'an agent has no parents')
    if (isPublic) refuse(['resource', 'public'], 'a public agent is told by the directory; remove "public"')
    return { kind, place }
  }
  const object = kinds.get(kind)
  if (!object) {
    refuse(
      ['resource', 'kind'],
      `kind "${kind}" is not listed in resources; ${suggestName(kind, ['agent', ...kinds.keys()])}`,
    )
    return undefined
  }
  const ancestors = listLevels(object).length - 1
  if (parents.length > ancestors)
    refuse(['resource', 'parents'], `a ${kind} has ${ancestors} ancestors, so at most as many parameters name them`)
  const distinct = new Set(place.in === 'path' ? [place.name, ...parents] : parents)
  if (distinct.size < parents.length + (place.in === 'path' ? 1 : 0))
    refuse(['resource', 'parents'], 'names a parameter twice; each names another resource')
  if (isPublic && listLevels(object).some(({ hasVisibility }) => !hasVisibility))
    refuse(['resource', 'public'], `nothing of kind "${kind}" is public, since it or an ancestor lacks "visibility"`)
  return { kind: 'object', object, place, parents, isPublic }
}

function checkUnguarded(
  { unguarded = {} }: RouteContent,
  resource: GuardedResource | undefined,
  names: ReadonlySet<string>,
  refuse: Report,
): void {
  const guarded = resource && listPathNames(resource)
  for (const name of Object.keys(unguarded)) {
    checkParam(name, ['unguarded', name], names, refuse)
    if (guarded?.includes(name)) refuse(['unguarded', name], `"${name}" names a resource already; remove the reason`)
  }
}

function readIdPlace(
  { param, header, query }: NonNullable<RouteContent['resource']>,
  names: ReadonlySet<string>,
  refuse: Report,
): IdPlace | undefined {
  const named = { path: param, header, query }
  const places = (['path', 'header', 'query'] as const).flatMap((place): readonly IdPlace[] => {
    const name = named[place]
    return name === undefined ? [] : [{ in: place, name }]
  })
  const [place] = places
  if (!place || places.length > 1) {
    refuse(['resource'], 'must have exactly one of param, header and query')
    return undefined
  }
  checkParam(param, ['resource', 'param'], names, refuse)
  if (query !== undefined && names.has(query))
    refuse(['resource', 'query'], `"${query}" is a parameter of the path too; a backend could take one for the other`)
  return place
}

function checkAbility(row: RouteContent, roles: Roles, refuse: Report): void {
  const ability = row.require?.ability
  if (ability === undefined || roles.highest.abilities.has(ability)) return
  refuse(['require', 'ability'], `no role grants "${ability}"; ${suggestName(ability, roles.highest.abilities)}`)
}

function checkPublic(row: RouteContent, refuse: Report): void {
  if (row.access !== 'public') return
  for (const key of ['require', 'organization', 'resource', 'decision', 'cluster', 'answer'] as const)
    if (row[key] !== undefined) refuse([key], `a public route has no caller, so it cannot have "${key}"`)
}

function checkOwned(row: RouteContent, refuse: Report): void {
  if (row.answer === undefined) return
  const rule = 'an endpoint of the gateway has no upstream, so it cannot have'
  if (row.timeouts) refuse(['timeouts'], `${rule} "timeouts"`)
  if (row.limits?.bodyBytes !== undefined) refuse(['limits', 'bodyBytes'], `${rule} "bodyBytes"`)
}

function checkParam(
  param: string | undefined,
  path: readonly (string | number)[],
  names: ReadonlySet<string>,
  refuse: Report,
): void {
  if (param !== undefined && !names.has(param))
    refuse(path, `parameter "${param}" is not in the path; ${suggestName(param, names)}`)
}
