import { GatewayError } from '../errors/gateway-error.ts'
import {
  type GuardedResource,
  type Method,
  methods,
  opensPublicAgents,
  parsePattern,
  type Route,
} from '../policy/route.ts'
import type { RequestTarget } from '../receive/target.ts'
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
  methodsAt: (target: RequestTarget, host: string) => readonly Method[] | undefined
}>

type Node = {
  literals: Map<string, Node>
  param: Node | undefined
  rows: Map<Method, Row> | undefined
  restRows: Map<Method, Row> | undefined
}

type Row = Readonly<{ route: Route; names: readonly string[] }>

/**
 * Compiles the routes to a trie. The path chooses first, segment by segment from the left, and the method last. At each
 * segment literals go before parameters, and parameters before the wildcard. So a wider pattern never serves a path that
 * a more specific one matches.
 */
export function compileRoutes(routes: readonly Route[]): RouteTable {
  const anyHost = newNode()
  const hosts = new Map<string, Node>()
  let mostSegments = 1
  for (const route of routes) {
    let root = anyHost
    if (route.host !== undefined) {
      root = hosts.get(route.host) ?? newNode()
      hosts.set(route.host, root)
    }
    mostSegments = Math.max(mostSegments, 1 + insert(root, route))
  }
  const findAt = (segments: readonly string[], host: string): Found | undefined => {
    const own = hosts.size > 0 ? hosts.get(hostName(host)) : undefined
    return (own && find(own, segments, 0, [])) ?? find(anyHost, segments, 0, [])
  }
  return {
    match: (target, host) => {
      const match = pick(findAt(target.segments, host), target)
      refuseMisreadable(match, mostSegments, (segments) => findAt(segments, host))
      return match
    },
    methodsAt: (target, host) => {
      const found = findAt(target.segments, host)
      if (target.hasEncodedSlash && !takesEncodedSlashes(found)) throw new GatewayError('target_encoded_slash')
      return found && listMethods(found.rows)
    },
  }
}

/**
 * Refuses a target that a backend could read as the path of a stricter route. If `/files/*` asks for less than
 * `/files/admin`, `/files/ADMIN` is refused.
 */
function refuseMisreadable(
  { route, target }: RouteMatch,
  mostSegments: number,
  findAt: (segments: readonly string[]) => Found | undefined,
): void {
  for (const segments of otherReadings(target, mostSegments)) {
    const other = findAt(segments)
    if (other && !isAtLeastAsStrict(route, rowFor(other, target.method)?.route))
      throw new GatewayError('target_like_stricter_row')
  }
}

const takesEncodedSlashes = (found: Found | undefined): boolean =>
  found !== undefined && [...found.rows.values()].some(({ route }) => route.takesEncodedSlashes)

const listMethods = (rows: ReadonlyMap<Method, Row>): readonly Method[] => methods.filter((method) => rows.has(method))

const newNode = (): Node => ({ literals: new Map(), param: undefined, rows: undefined, restRows: undefined })

/** RFC 3986 3.2.2: host names ignore case and a root dot. */
export const hostName = (host: string): string => host.toLowerCase().replace(/:\d+$/, '').replace(/\.$/, '')

function insert(root: Node, route: Route): number {
  const segments = parsePattern(route.path)
  const names: string[] = []
  let node = root
  for (const segment of segments) {
    if (segment.kind === 'rest') continue
    if (segment.kind === 'literal') {
      const next = node.literals.get(segment.text) ?? newNode()
      node.literals.set(segment.text, next)
      node = next
    } else {
      names.push(segment.name)
      node.param ??= newNode()
      node = node.param
    }
  }
  const isRest = segments.at(-1)?.kind === 'rest'
  const rows = (isRest ? node.restRows : node.rows) ?? new Map<Method, Row>()
  if (isRest) node.restRows = rows
  else node.rows = rows
  const row = { route, names }
  for (const method of route.methods) rows.set(method, row)
  return segments.length
}

type Found = Readonly<{ rows: ReadonlyMap<Method, Row>; values: readonly string[]; restFrom: number | undefined }>

function find(node: Node, segments: readonly string[], index: number, values: readonly string[]): Found | undefined {
  const segment = segments[index]
  if (segment === undefined) return node.rows && { rows: node.rows, values, restFrom: undefined }
  const literal = node.literals.get(segment)
  const found = literal && find(literal, segments, index + 1, values)
  if (found) return found
  // A parameter never matches an empty segment: /datasets/ is not /datasets/:id.
  const other = segment !== '' && node.param && find(node.param, segments, index + 1, [...values, segment])
  if (other) return other
  return node.restRows && segment !== '' ? { rows: node.restRows, values, restFrom: index } : undefined
}

const rowFor = (found: Found, method: string): Row | undefined =>
  isKnownMethod(method) ? found.rows.get(method) : undefined

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

const isKnownMethod = (method: string): method is Method => (methods as readonly string[]).includes(method)

function rawRest(path: string, count: number): string {
  let position = 0
  for (let skipped = 0; skipped < count; skipped++) position = path.indexOf('/', position + 1)
  return path.slice(position + 1)
}

/** Carries the surface of the path's routes, so that the refusal has their error format. */
export class MethodNotAllowed extends GatewayError {
  readonly surface: Route['surface']

  constructor(rows: ReadonlyMap<Method, Row>) {
    const [first] = rows.values()
    super('method_not_allowed', { allow: listMethods(rows) })
    this.surface = first?.route.surface ?? 'platform'
  }
}

/**
 * Whether each caller who passes `route` may also pass `other`. If the other path has no route for the method, the
 * answer is no.
 */
function isAtLeastAsStrict(route: Route, other: Route | undefined): boolean {
  if (!other) return false
  if (route === other || other.isPublic) return true
  if (route.isPublic || !isSamePlace(route, other)) return false
  const hasRole = !other.role || (route.role !== undefined && route.role.rank >= other.role.rank)
  return hasRole && (other.ability === undefined || other.ability === route.ability)
}

/**
 * Roles are held in an organization, and a public agent requires none. So roles compare only if both routes find their
 * organization and resource in the same way.
 */
const isSamePlace = (route: Route, other: Route): boolean =>
  route.organizationParam === other.organizationParam &&
  (opensPublicAgents(other) || !opensPublicAgents(route)) &&
  isSameResource(route.resource, other.resource)

function isSameResource(guarded: GuardedResource | undefined, other: GuardedResource | undefined): boolean {
  if (guarded?.kind !== other?.kind || guarded?.place.in !== other?.place.in) return false
  if (guarded?.place.name !== other?.place.name) return false
  if (guarded?.kind !== 'object' || other?.kind !== 'object') return true
  return (
    guarded.object === other.object &&
    guarded.parents.join() === other.parents.join() &&
    (other.isPublic || !guarded.isPublic)
  )
}
