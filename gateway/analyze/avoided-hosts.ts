import { isSameRewrite } from '../policy/path-rewrite.ts'
import { divideRequests } from '../policy/regions.ts'
import { type Destination, methods, parsePattern, type Route } from '../policy/route.ts'
import { buildTrie, type Found, rowFor } from '../policy/route-trie.ts'
import { isCountedAlike } from '../policy/strictness.ts'
import { isAtLeast } from '../policy/upstream-paths.ts'

/** `by` serves the path of `avoided` on another host. Without `host` it serves each host that no route names. */
export type AvoidedHost = Readonly<{
  avoided: Route
  by: Route
  host: string | undefined
  path: string
  /** Whether `by` admits callers whom `avoided` refuses. If not, it only counts them in another budget. */
  isWider: boolean
}>

type Served = Readonly<{ route: Route; host: string | undefined }>

/**
 * Routes that a client avoids by another host name, once for each pair. The client writes `Host`, and a backend seldom
 * looks at it. The routes of a host go before those of any host, also where their pattern is wider, so a route without
 * `host` can be avoided as well.
 */
export function findAvoidedHosts(routes: readonly Route[]): readonly AvoidedHost[] {
  const hosts = new Set(routes.map(({ host }) => host))
  if (hosts.size === 1) return []
  const trie = buildTrie(routes, { widensOptions: false })
  const avoided = new Map<string, AvoidedHost>()
  const regions = divideRequests(routes.map(({ path }) => ({ host: undefined, pattern: parsePattern(path) })))
  for (const { steps } of regions) {
    const segments = steps.map(({ text }) => text)
    const found = [...new Set([undefined, ...hosts])].map((host) => ({ host, found: trie.find(segments, host) }))
    for (const method of methods)
      for (const pair of compare(listServed(found, method), `/${segments.join('/')}`)) {
        const key = JSON.stringify([pair.avoided.id, pair.by.id])
        const known = avoided.get(key)
        if (!known || (pair.isWider && !known.isWider)) avoided.set(key, pair)
      }
  }
  return [...avoided.values()]
}

function listServed(
  all: readonly Readonly<{ host: string | undefined; found: Found | undefined }>[],
  method: string,
): readonly Served[] {
  const served = new Map<Route, Served>()
  for (const { host, found } of all) {
    const route = rowFor(found, method)?.route
    if (route && !served.has(route)) served.set(route, { route, host })
  }
  return [...served.values()]
}

function* compare(served: readonly Served[], path: string): Generator<AvoidedHost> {
  for (const avoided of served)
    for (const by of served) {
      if (avoided === by || !reachSame(avoided, by, path)) continue
      const isWider = !isAtLeast(withoutLabel(by.route), withoutLabel(avoided.route))
      if (!isWider && isCountedAlike(by.route, avoided.route)) continue
      yield { avoided: avoided.route, by: by.route, host: by.host, path, isWider }
    }
}

/** A client that chooses the host chooses the label, as it chooses `x-organization-id` elsewhere. */
const withoutLabel = (route: Route): Route =>
  route.hostLabel === undefined ? route : { ...route, hostLabel: undefined }

const reachSame = (one: Served, other: Served, path: string): boolean =>
  nameOf(one.route.destination) === nameOf(other.route.destination) &&
  isSameRewrite(one.route.rewrite, other.route.rewrite, path)

/** Two cluster routes that take different parts of one path are a mistake of the policy, unless they require the same. */
const nameOf = (destination: Destination): string => {
  if (destination.kind === 'cluster') return 'cluster'
  const { kind, name } = destination
  return `${kind} ${destination.kind === 'upstream' ? (destination.place ?? name) : name}`
}
