import { GatewayError } from '../errors/gateway-error.ts'
import { rewritePath } from '../policy/path-rewrite.ts'
import { type Method, methods, type Route } from '../policy/route.ts'
import { buildTrie, type Found, isKnownMethod, type RouteRow, rowFor } from '../policy/route-trie.ts'
import { isAtLeastAsStrict, isCountedAlike } from '../policy/strictness.ts'
import {
  type Claim,
  indexUpstreamPaths,
  isAtLeast,
  isFoldedAlike,
  type UpstreamPaths,
} from '../policy/upstream-paths.ts'
import { type RequestTarget, readSegments } from '../receive/target.ts'
import { otherReadings } from './readings.ts'

export type RouteMatch = Readonly<{
  route: Route
  target: RequestTarget
  params: ReadonlyMap<string, string>
  /** The part that `*` matched, raw and without its leading slash: it is forwarded as it was authorized. */
  rest: string | undefined
}>

export type RouteTable = Readonly<{
  match: (target: RequestTarget, host: string) => RouteMatch
  find: (segments: readonly string[], method: string, host: string) => Route | undefined
  methodsAt: (target: RequestTarget, host: string) => readonly Method[] | undefined
}>

export function compileRoutes(routes: readonly Route[]): RouteTable {
  const trie = buildTrie(routes)
  const upstreamPaths = indexUpstreamPaths(routes, trie)
  const hasHosts = routes.some(({ host }) => host !== undefined)
  const findAt = (segments: readonly string[], host: string): Found | undefined =>
    trie.find(segments, hasHosts ? hostName(host) : undefined)
  return {
    match: (target, host) => {
      const match = pick(findAt(target.segments, host), target)
      refuseMisreadable(match, trie.mostSegments, (segments) => findAt(segments, host))
      refuseMisreadableUpstream(match, upstreamPaths)
      return match
    },
    find: (segments, method, host) => rowFor(findAt(segments, host), method)?.route,
    methodsAt: (target, host) => {
      const found = findAt(target.segments, host)
      if (target.hasEncodedSlash && !takesEncodedSlashes(found)) throw new GatewayError('target_encoded_slash')
      return found && listMethods(found.rows)
    },
  }
}

/**
 * Refuses a target that a backend could read as the path of a stricter route, or of one with a budget of its own. If
 * `/files/*` asks for less than `/files/admin`, `/files/ADMIN` is refused.
 */
function refuseMisreadable(
  { route, target }: RouteMatch,
  mostSegments: number,
  findAt: (segments: readonly string[]) => Found | undefined,
): void {
  for (const segments of otherReadings(target, mostSegments)) {
    const found = findAt(segments)
    const other = rowFor(found, target.method)?.route
    if (found && !(isAtLeastAsStrict(route, other) && isCountedAlike(route, other)))
      throw new GatewayError('target_like_stricter_row')
  }
}

/**
 * Judges the path that the upstream gets as strictly as the client's. A rewrite may make it another route's, in some
 * reading: if `/a/:x` goes out as `/b/:x`, and `/c` as `/b/admin` for owners alone, `/a/ADMIN` is refused.
 */
function refuseMisreadableUpstream({ route, target, rest }: RouteMatch, upstreamPaths: UpstreamPaths): void {
  const isContested = upstreamPaths.isContested(route)
  if (!isContested && !route.rewrite) return
  const path = pathAtUpstream(route, target.path, rest)
  const segments = readSegments(path)
  const readings = otherReadings({ path, segments }, upstreamPaths.mostSegments)
  if (!isContested) return
  const claimsFor = (reading: readonly string[]) => upstreamPaths.findClaims(route, reading, target.method)
  const claims = claimsFor(segments)
  const isCounted = (other: Route): boolean =>
    isCountedAlike(route, other) || claims.some((claim) => claim.route === other)
  const isBroken =
    claims.some((claim) => !isAtLeast(route, claim.route) && !isSamePath(claim, route, target)) ||
    readings.some((reading) =>
      claimsFor(reading).some((claim) => !isAtLeast(route, claim.route) || !isCounted(claim.route)),
    )
  if (isBroken) throw new GatewayError('target_like_stricter_row')
}

const isSamePath = (claim: Claim, route: Route, { segments }: RequestTarget): boolean =>
  claim.route.path === route.path || isFoldedAlike(claim.path, segments)

function pathAtUpstream({ rewrite, destination }: Route, path: string, rest: string | undefined): string {
  if (destination.kind === 'cluster') return `/${rest ?? ''}`
  return rewrite ? rewritePath(rewrite, path) : path
}

const takesEncodedSlashes = (found: Found | undefined): boolean =>
  found !== undefined && [...found.rows.values()].some(({ route }) => route.takesEncodedSlashes)

const listMethods = (rows: ReadonlyMap<Method, RouteRow>): readonly Method[] =>
  methods.filter((method) => rows.has(method))

/** RFC 3986 3.2.2: host names ignore case and a root dot. */
export const hostName = (host: string): string => host.toLowerCase().replace(/:\d+$/, '').replace(/\.$/, '')

function pick(found: Found | undefined, target: RequestTarget): RouteMatch {
  const row = found && rowFor(found, target.method)
  const takesSlashes = row ? row.route.takesEncodedSlashes : takesEncodedSlashes(found)
  if (target.hasEncodedSlash && !takesSlashes) throw new GatewayError('target_encoded_slash')
  if (!found) {
    if (isKnownMethod(target.method)) throw new GatewayError('route_not_found')
    throw new GatewayError('method_not_allowed', { allow: methods })
  }
  if (!row) throw new MethodNotAllowed(found.rows)
  return {
    route: row.route,
    target,
    params:
      row.names.length === 0 ? noParams : new Map(row.names.map((name, index) => [name, found.values[index] ?? ''])),
    rest: found.restFrom === undefined ? undefined : rawRest(target.path, found.restFrom),
  }
}

const noParams: ReadonlyMap<string, string> = new Map()

function rawRest(path: string, count: number): string {
  let position = 0
  for (let skipped = 0; skipped < count; skipped++) position = path.indexOf('/', position + 1)
  return path.slice(position + 1)
}

/** Carries the surface of the path's routes, so that the refusal has their error format. */
export class MethodNotAllowed extends GatewayError {
  readonly surface: Route['surface']

  constructor(rows: ReadonlyMap<Method, RouteRow>) {
    const [first] = rows.values()
    super('method_not_allowed', { allow: listMethods(rows) })
    this.surface = first?.route.surface ?? 'platform'
  }
}
