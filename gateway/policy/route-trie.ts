import { domainOf, wildcardDomain } from './host.ts'
import { type Method, methods, parsePattern, type Route } from './route.ts'

export type RouteTrie = Readonly<{
  find: (segments: readonly string[], host: string | undefined) => Found | undefined
  mostSegments: number
}>

export type RouteRow = Readonly<{
  route: Route
  names: readonly string[]
  /** Whether the route is that of `/*`, at a path whose own routes have no OPTIONS. */
  isWidest?: true
}>

export type TrieTerms = Readonly<{
  /** Whether a public `OPTIONS /*` serves the paths of other routes, too. With `cors` the gateway answers there. */
  widensOptions: boolean
}>

export type Found = Readonly<{
  rows: ReadonlyMap<Method, RouteRow>
  values: readonly string[]
  restFrom: number | undefined
}>

type Node = {
  literals: Map<string, Node>
  param: Node | undefined
  rows: Map<Method, RouteRow> | undefined
  restRows: Map<Method, RouteRow> | undefined
}

/**
 * The path chooses first, segment by segment from the left, and the method last. At each segment literals go before
 * parameters, and parameters before the wildcard. So a wider pattern never serves a path that a more specific one
 * matches. An exact host goes before a wildcard, which then serves none of its paths.
 */
export function buildTrie(routes: readonly Route[], { widensOptions }: TrieTerms): RouteTrie {
  const anyHost = newNode()
  const hosts = new Map<string, Node>()
  const domains = new Map<string, Node>()
  let mostSegments = 1
  for (const route of routes) {
    let root = anyHost
    if (route.host !== undefined) {
      const domain = wildcardDomain(route.host)
      const [roots, name] = domain === undefined ? [hosts, route.host] : [domains, domain]
      root = roots.get(name) ?? newNode()
      roots.set(name, root)
    }
    mostSegments = Math.max(mostSegments, 1 + insert(root, route))
  }
  if (widensOptions)
    for (const root of [anyHost, ...hosts.values(), ...domains.values()]) {
      const row = (root.restRows?.has('OPTIONS') ? root : anyHost).restRows?.get('OPTIONS')
      if (row && namesOptions(row.route)) widenOptions(root, { ...row, isWidest: true })
    }
  const find: RouteTrie['find'] = (segments, host) => {
    const own = host === undefined ? undefined : (hosts.get(host) ?? domains.get(domainOf(host) ?? ''))
    return (own && findBelow(own, segments, 0, [])) ?? findBelow(anyHost, segments, 0, [])
  }
  return { find, mostSegments }
}

const newNode = (): Node => ({ literals: new Map(), param: undefined, rows: undefined, restRows: undefined })

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
  const rows = (isRest ? node.restRows : node.rows) ?? new Map<Method, RouteRow>()
  if (isRest) node.restRows = rows
  else node.rows = rows
  const row = { route, names }
  for (const method of route.methods) rows.set(method, row)
  return segments.length
}

/**
 * A route of all methods, such as a web site's, does not name OPTIONS: it opens no path of others. A guarded route would
 * only turn the 405 of a preflight, which has no credential, into a 401.
 */
const namesOptions = ({ isPublic, methods: { size } }: Route): boolean => isPublic && size < methods.length

/** A nearer wildcard with an OPTIONS of its own keeps it off: that route may be guarded. */
function widenOptions(node: Node, row: RouteRow): void {
  const nearer = node.restRows?.get('OPTIONS')
  if (nearer && nearer.route !== row.route) return
  for (const rows of [node.rows, node.restRows]) if (rows && !rows.has('OPTIONS')) rows.set('OPTIONS', row)
  for (const child of node.literals.values()) widenOptions(child, row)
  if (node.param) widenOptions(node.param, row)
}

function findBelow(
  node: Node,
  segments: readonly string[],
  index: number,
  values: readonly string[],
): Found | undefined {
  const segment = segments[index]
  if (segment === undefined) return node.rows && { rows: node.rows, values, restFrom: undefined }
  const literal = node.literals.get(segment)
  const found = literal && findBelow(literal, segments, index + 1, values)
  if (found) return found
  // A parameter never matches an empty segment: /datasets/ is not /datasets/:id.
  const other = segment !== '' && node.param && findBelow(node.param, segments, index + 1, [...values, segment])
  if (other) return other
  return node.restRows && segment !== '' ? { rows: node.restRows, values, restFrom: index } : undefined
}

export const rowFor = (found: Found | undefined, method: string): RouteRow | undefined =>
  isKnownMethod(method) ? found?.rows.get(method) : undefined

export const isKnownMethod = (method: string): method is Method => (methods as readonly string[]).includes(method)
