// The route of a request: found in a tree that is built when the policy is loaded.
import { GatewayError } from '../../base/errors/gateway-error.ts'
import { isNoId, isSameValue, listDecidingNames, type ValuePlace } from '../../policy/deciding-values.ts'
import { firstLabel } from '../../policy/host.ts'
import { rewritePath } from '../../policy/path-rewrite.ts'
import { type Method, methods, type Route } from '../../policy/route.ts'
import { buildTrie, type Found, isKnownMethod, type RouteRow, rowFor, type TrieTerms } from '../../policy/route-trie.ts'
import { isAtLeastAsStrict, isCountedAlike } from '../../policy/strictness.ts'
import {
  type Claim,
  indexUpstreamPaths,
  isAtLeast,
  isFoldedAlike,
  type UpstreamPaths,
} from '../../policy/upstream-paths.ts'
import { type RequestTarget, readSegments } from '../receive/target.ts'
import { otherReadings } from './readings.ts'

export type RouteMatch = Readonly<{
  route: Route
  target: RequestTarget
  params: ReadonlyMap<string, string>
  /** The part that `*` matched, raw and without its leading slash: it is forwarded as it was authorized. */
  rest: string | undefined
  /** The first label of the host, if it names the organization. */
  hostLabel: string | undefined
}>

export type RouteTable = Readonly<{
  match: (target: RequestTarget, host: string) => RouteMatch
  find: (segments: readonly string[], method: string, host: string) => Route | undefined
  methodsAt: (target: RequestTarget, host: string) => readonly Method[] | undefined
}>

export function compileRoutes(routes: readonly Route[], terms: TrieTerms = withoutCors): RouteTable {
  const trie = buildTrie(routes, terms)
  const upstreamPaths = indexUpstreamPaths(routes, trie)
  const hasHosts = routes.some(({ host }) => host !== undefined)
  const findAt = (segments: readonly string[], host: string): Found | undefined =>
    trie.find(segments, hasHosts ? hostName(host) : undefined)
  return {
    match: (target, host) => {
      const match = pick(findAt(target.segments, host), target, host)
      // Longer readings of the upstream's paths serve both, since no segment beyond a trie's longest pattern counts.
      const readings = otherReadings(target, Math.max(trie.mostSegments, upstreamPaths.mostSegments))
      refuseMisreadable(match, readings, (segments) => findAt(segments, host))
      refuseMisreadableUpstream(match, readings, upstreamPaths)
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

const withoutCors: TrieTerms = { widensOptions: true }

/**
 * Refuses a target that a backend could read as the path of a stricter route, or of one with a budget of its own. If
 * `/files/*` asks for less than `/files/admin`, `/files/ADMIN` is refused. So is one that could be read with another
 * value where the decision took one: as `/files/7/8/…`, where `/files/.../7/8` is judged by its third name.
 */
function refuseMisreadable(
  { route, target, params }: RouteMatch,
  readings: Readings,
  findAt: (segments: readonly string[]) => Found | undefined,
): void {
  const passed = new Map<Found['rows'], readonly Deciding[]>()
  for (const segments of readings) {
    const found = findAt(segments)
    if (!found) continue
    // To compare two routes costs far more than to find one, and most readings lead to few routes.
    let deciding = passed.get(found.rows)
    if (!deciding) {
      const row = rowFor(found, target.method)
      if (!(isAtLeastAsStrict(route, row?.route) && isCountedAlike(route, row?.route)))
        throw new GatewayError('target_like_stricter_row')
      deciding = row ? listDeciding(row) : []
      passed.set(found.rows, deciding)
    }
    for (const { name, index } of deciding) {
      const value = params.get(name)
      if (isSameValue(found.values[index], value) || isNoId(route, name, value ?? '')) continue
      throw new GatewayError('target_like_other_id')
    }
  }
}

type Deciding = Readonly<{ name: string; index: number }>

// The judged route has the same names, or it would not be as strict.
const listDeciding = ({ route, names }: RouteRow): readonly Deciding[] =>
  listDecidingNames(route).map((name) => ({ name, index: names.indexOf(name) }))

/**
 * Judges the path that the upstream gets as strictly as the client's. A rewrite may make it another route's, in some
 * reading: if `/a/:x` goes out as `/b/:x`, and `/c` as `/b/admin` for owners alone, `/a/ADMIN` is refused.
 */
function refuseMisreadableUpstream(
  { route, target, rest }: RouteMatch,
  ofTarget: Readings,
  upstreamPaths: UpstreamPaths,
): void {
  const isContested = upstreamPaths.isContested(route)
  const places = upstreamPaths.findValues(route)
  if (!isContested && !route.rewrite && places.length === 0) return
  const path = pathAtUpstream(route, target.path, rest)
  const segments = readSegments(path)
  const readings = path === target.path ? ofTarget : otherReadings({ path, segments }, upstreamPaths.mostSegments)
  if (!isContested && places.length === 0) return
  const claimsFor = (reading: readonly string[]) => upstreamPaths.findClaims(route, reading, target.method)
  const claims = isContested ? claimsFor(segments) : []
  const isCounted = (other: Route): boolean =>
    isCountedAlike(route, other) || claims.some((claim) => claim.route === other)
  const passed = new Set<Route>()
  const isStricter = (other: Route): boolean => {
    if (passed.has(other)) return false
    if (!isAtLeast(route, other) || !isCounted(other)) return true
    passed.add(other)
    return false
  }
  if (claims.some((claim) => !isAtLeast(route, claim.route) && !isSamePath(claim, route, target)))
    throw new GatewayError('target_like_stricter_row')
  for (const reading of readings)
    for (const claim of claimsFor(reading)) {
      if (isContested && isStricter(claim.route)) throw new GatewayError('target_like_stricter_row')
      if (!hasValues(claim, upstreamPaths, places, { route, target })) throw new GatewayError('target_like_other_id')
    }
}

/** Routes that compare by place take what they judge from one place of the upstream's path. */
const hasValues = (
  claim: Claim,
  { findValues }: UpstreamPaths,
  places: readonly ValuePlace[],
  { route, target: { segments } }: Pick<RouteMatch, 'route' | 'target'>,
): boolean =>
  findValues(claim.route).every(({ here, atUpstream }) => {
    const own = places.find((place) => place.atUpstream === atUpstream)
    if (!own) return false
    const value = segments[own.here]
    return isSameValue(claim.path[here], value) || isNoId(route, own.name, value ?? '')
  })

type Readings = ReturnType<typeof otherReadings>

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

function pick(found: Found | undefined, target: RequestTarget, host: string): RouteMatch {
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
    rest: readRest(target.path, row.isWidest ? 0 : found.restFrom),
    hostLabel: row.route.hostLabel && firstLabel(hostName(host)),
  }
}

const noParams: ReadonlyMap<string, string> = new Map()

function readRest(path: string, count: number | undefined): string | undefined {
  if (count === undefined) return undefined
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
