import { listValuePlaces, type ValuePlace } from './deciding-values.ts'
import { chooseText, divideRequests } from './regions.ts'
import { methods, type PatternSegment, parsePattern, type Route } from './route.ts'
import { buildTrie, type Found, type RouteTrie, rowFor } from './route-trie.ts'
import { isAtLeastAsStrict, isCountedAlike } from './strictness.ts'

export type Claim = Readonly<{ route: Route; path: readonly string[] }>

export type UpstreamPaths = Readonly<{
  isContested: (route: Route) => boolean
  findClaims: (route: Route, segments: readonly string[], method: string) => readonly Claim[]
  /** Values that the route judges and its upstream gets. Empty where no path is rewritten. */
  findValues: (route: Route) => readonly ValuePlace[]
  mostSegments: number
}>

type Image = Readonly<{ route: Route; match: Pattern; pattern: Pattern }>

type Pattern = readonly PatternSegment[]

type Place = Readonly<{ images: readonly Image[]; root: Node }>

export function indexUpstreamPaths(routes: readonly Route[], trie: RouteTrie): UpstreamPaths {
  const { places, text } = readPlaces(routes, 1)
  const values = new Map(
    [...places.values()].flatMap(({ images }) =>
      images.map(({ route }) => [route, listValuePlaces(route, pathAtUpstream(route))] as const),
    ),
  )
  const lengths = [...places.values()].flatMap(({ images }) => images.map(({ pattern }) => pattern.length))
  const contested = new Set([...places.values()].flatMap(listContested))
  return {
    isContested: (route) => contested.has(route),
    findClaims: (route, segments, method) => {
      const place = places.get(nameUpstream(route))
      return place ? claimsFor(listOrigins(place, segments, trie, text), method) : []
    },
    findValues: (route) => values.get(route) ?? none,
    mostSegments: trie.mostSegments + Math.max(0, ...lengths),
  }
}

const none: readonly ValuePlace[] = []

/** Pairs take quadratic time at each load. Beyond it all routes count as contested, which is slower and as strict. */
const mostCompared = 64

function listContested({ images }: Place): readonly Route[] {
  const routes = images.map(({ route }) => route)
  if (routes.length > mostCompared) return routes
  const yields = (route: Route, other: Route): boolean => isAtLeast(route, other) && isCountedAlike(route, other)
  return routes.filter((route) => routes.some((other) => sharesMethod(route, other) && !yields(route, other)))
}

const sharesMethod = (route: Route, other: Route): boolean =>
  [...route.methods].some((method) => other.methods.has(method))

export type Collision = Readonly<{ claim: Claim; other: Claim; path: readonly string[] }>

type IsAlike = (one: Route, other: Route) => boolean

const requiresAlike: IsAlike = (one, other) => isAtLeast(one, other) && isAtLeast(other, one)

/** Upstream paths that two paths of clients lead to under different requirements, once for each pair of routes. */
export function findCollisions(routes: readonly Route[], isAlike = requiresAlike): readonly Collision[] {
  const { places, text, literals } = readPlaces(routes, 2)
  if (places.size === 0) return []
  const trie = buildTrie(routes, { widensOptions: false })
  const collisions = new Map<string, Collision>()
  for (const place of places.values())
    for (const { steps } of divideRequests(
      carryPatterns(place, routes).map((pattern) => ({ host: undefined, pattern })),
      literals,
    )) {
      const path = steps.map((step) => step.text)
      const origins = listOrigins(place, path, trie, text)
      for (const method of origins.length > 1 ? methods : [])
        for (const found of findDifferent(claimsFor(origins, method), path, isAlike))
          collisions.set(JSON.stringify([found.claim.route.id, found.other.route.id]), found)
    }
  return [...collisions.values()]
}

function carryPatterns({ images }: Place, routes: readonly Route[]): readonly Pattern[] {
  const patterns = routes.map(({ path }) => parsePattern(path))
  const carried = images.flatMap((image) => [image.pattern, ...patterns.flatMap((other) => carry(image, other) ?? [])])
  return [...new Map(carried.map((pattern) => [describePattern(pattern), pattern])).values()]
}

function carry({ match, pattern }: Image, other: Pattern): readonly Pattern[] | undefined {
  if (isOtherText(match[0], other[0])) return undefined
  const rest = other.at(-1)?.kind === 'rest' ? other.length - 1 : Number.POSITIVE_INFINITY
  const segmentAt = (index: number): PatternSegment | undefined =>
    index < rest ? other[index] : { kind: 'param', name: '' }
  const isApart = match.some((segment, index) => {
    const there = segmentAt(index)
    if (segment.kind === 'rest') return there === undefined
    return !there || isOtherText(segment, there)
  })
  if (isApart || (match.at(-1)?.kind !== 'rest' && other.length > match.length && rest > match.length)) return undefined
  const carried = pattern.flatMap((segment): Pattern => {
    const place = segment.kind === 'literal' ? -1 : match.findIndex((one) => isSameVariable(one, segment))
    if (segment.kind === 'rest') return place < rest ? other.slice(place) : [segment]
    return [(place < 0 ? undefined : segmentAt(place)) ?? segment]
  })
  return [foldPattern(carried)]
}

const isOtherText = (one: PatternSegment | undefined, other: PatternSegment | undefined): boolean =>
  one?.kind === 'literal' && other?.kind === 'literal' && one.text !== other.text

const isSameVariable = (one: PatternSegment, other: PatternSegment): boolean =>
  one.kind === other.kind && nameOfParam(one) === nameOfParam(other)

const describePattern = (pattern: Pattern): string =>
  pattern.map((segment) => (segment.kind === 'literal' ? `/${segment.text}` : `/${segment.kind}`)).join('')

function* findDifferent(claims: readonly Claim[], path: readonly string[], isAlike: IsAlike): Generator<Collision> {
  for (const [index, one] of claims.entries())
    for (const other of claims.slice(0, index))
      if (!isAlike(one.route, other.route) && !isFoldedAlike(one.path, other.path)) yield { claim: one, other, path }
}

export const isAtLeast = (route: Route, other: Route): boolean =>
  isAtLeastAsStrict(route, other, ({ rewrite, path }, param) => {
    const place = parsePattern(rewrite?.path ?? path).findIndex(
      (segment) => segment.kind === 'param' && segment.name === param,
    )
    return place < 0 ? 'left out' : place
  })

/** A path that one route alone leads to collides with none. */
function readPlaces(routes: readonly Route[], fewestImages: 1 | 2) {
  const images = new Map<string, Image[]>()
  for (const route of routes) if (pathAtUpstream(route) !== route.path) images.set(nameUpstream(route), [])
  for (const route of routes)
    images
      .get(nameUpstream(route))
      ?.push({ route, match: parsePattern(route.path), pattern: foldPattern(parsePattern(pathAtUpstream(route))) })
  const literals = routes.flatMap(({ path }) =>
    parsePattern(path).flatMap((segment) => (segment.kind === 'literal' ? segment.text : [])),
  )
  const mixed = [...images].filter(([, all]) => all.length >= fewestImages)
  const places = new Map(mixed.map(([name, all]): [string, Place] => [name, { images: all, root: plant(all) }]))
  return { places, literals, text: chooseText(literals, 'other') }
}

export const pathAtUpstream = ({ destination, rewrite, path }: Route): string =>
  destination.kind === 'cluster' ? '/*' : (rewrite?.path ?? path)

export function nameUpstream({ destination }: Route): string {
  if (destination.kind === 'upstream') return `upstream ${destination.place ?? destination.name}`
  return destination.kind
}

const foldPattern = (pattern: Pattern): Pattern => {
  const folded = pattern
    .map((segment) => (segment.kind === 'literal' ? { ...segment, text: foldName(segment.text) } : segment))
    .filter((segment) => segment.kind !== 'literal' || segment.text !== '')
  return folded.length === 0 ? [{ kind: 'literal', text: '' }] : folded
}

const foldSegments = (segments: readonly string[]): readonly string[] => segments.map(foldName).filter(Boolean)

export const isFoldedAlike = (one: readonly string[], other: readonly string[]): boolean =>
  foldSegments(one).join('/') === foldSegments(other).join('/')

/** One spelling for all that some server takes for the same name. */
export function foldName(text: string): string {
  let plain = text
  for (let depth = 0; depth < decodingDepth; depth++) plain = decode(plain)
  const form = /\p{M}{31}/u.test(plain) ? plain : plain.normalize('NFKC')
  const [name = ''] = form.toUpperCase().toLowerCase().split(/[;?#]/)
  return name.replace(/(?<![.\s])[.\s]+$/, '').trimStart()
}

/** As deep as `stages/receive/segment.ts` follows escapes: a name that is nested deeper never reaches an upstream. */
const decodingDepth = 8

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replace(/%(?![0-9a-f]{2})/gi, '%25'))
  } catch {
    return text
  }
}

type Origin = Claim & Readonly<{ found: Found | undefined }>

function listOrigins({ root }: Place, segments: readonly string[], trie: RouteTrie, text: string): readonly Origin[] {
  const wanted = segments.length > 1 && segments.at(-1) === '' ? segments.slice(0, -1) : segments
  return collect(root, wanted, 0).flatMap((image) =>
    findOrigins(image, wanted, text, trie.mostSegments).map((path) => {
      const { route } = image
      return { route, path, found: trie.find(path, route.host) }
    }),
  )
}

const claimsFor = (origins: readonly Origin[], method: string): readonly Claim[] =>
  origins.filter(({ route, found }) => rowFor(found, method)?.route === route)

/** The clients' paths that are forwarded so. A part that is left out has a text that no route names, in any length. */
function findOrigins(
  { match, pattern }: Image,
  segments: readonly string[],
  text: string,
  mostSegments: number,
): readonly (readonly string[])[] {
  const isRestLeftOut = match.at(-1)?.kind === 'rest' && pattern.at(-1)?.kind !== 'rest'
  return Array.from({ length: isRestLeftOut ? mostSegments : 1 }, (_, index) =>
    match.flatMap((segment) => {
      if (segment.kind === 'literal') return segment.text
      const place = pattern.findIndex((other) => isSameVariable(other, segment))
      if (place < 0) return segment.kind === 'rest' ? Array<string>(index + 1).fill(text) : text
      return segment.kind === 'rest' ? segments.slice(place) : (segments[place] ?? text)
    }),
  )
}

const nameOfParam = (segment: PatternSegment): string | undefined =>
  segment.kind === 'param' ? segment.name : undefined

type Node = { literals: Map<string, Node>; param: Node | undefined; here: Image[]; rest: Image[] }

const newNode = (): Node => ({ literals: new Map(), param: undefined, here: [], rest: [] })

function plant(images: readonly Image[]): Node {
  const root = newNode()
  for (const image of images) {
    let node = root
    for (const segment of image.pattern) {
      if (segment.kind === 'rest') break
      if (segment.kind === 'param') {
        node.param ??= newNode()
        node = node.param
      } else {
        const next: Node = node.literals.get(segment.text) ?? newNode()
        node.literals.set(segment.text, next)
        node = next
      }
    }
    if (image.pattern.at(-1)?.kind === 'rest') node.rest.push(image)
    else node.here.push(image)
  }
  return root
}

function collect(node: Node, segments: readonly string[], index: number): readonly Image[] {
  const segment = segments[index]
  if (segment === undefined) return node.here
  const literal = node.literals.get(segment)
  const below = literal ? collect(literal, segments, index + 1) : []
  if (segment === '') return below
  return [...below, ...(node.param ? collect(node.param, segments, index + 1) : []), ...node.rest]
}
