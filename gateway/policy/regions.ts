import { coversHost, wildcardDomain } from './host.ts'
import { type PatternSegment, parsePattern, type Route } from './route.ts'

export type Step = Readonly<{ text: string; isNamed: boolean }>

/** Requests that none of the given routes tells apart. The texts of `steps` are a path that stands for all of them. */
export type Region = Readonly<{
  host: string | undefined
  steps: readonly Step[]
  isOpen: boolean
  exampleHost: string
}>

type Pattern = readonly PatternSegment[]

export const listRegions = (rows: readonly Pick<Route, 'host' | 'path'>[]): readonly Region[] =>
  divideRequests(rows.map(({ host, path }) => ({ host, pattern: parsePattern(path) })))

/**
 * Divides the requests that any of the routes could match. The match depends on three things: the number of segments,
 * an empty last segment, and which literals of the routes each segment equals. So it follows the routes by segment:
 * once with each literal, and once with another text. All routes are followed together, so that each side of an overlap
 * becomes a region.
 * @param taken Texts that stand for themselves, beside the literals.
 */
export function divideRequests(
  rows: readonly Readonly<{ host: string | undefined; pattern: Pattern }>[],
  taken: readonly string[] = [],
): readonly Region[] {
  const hosts = new Set(rows.map(({ host }) => host))
  const named = rows.flatMap(({ pattern }) => pattern.flatMap((part) => (part.kind === 'literal' ? part.text : [])))
  const other: Step = { text: chooseText([...named, ...taken], 'other'), isNamed: false }
  return [...new Set([undefined, ...hosts])].flatMap((host) => {
    // A policy without the exact host serves it by the wildcard.
    const patterns = rows.filter((row) => coversHost(row.host, host)).map(({ pattern }) => pattern)
    const exampleHost = chooseHost(host, hosts)
    return follow(patterns, [], other).map((paths): Region => ({ host, exampleHost, ...paths }))
  })
}

function chooseHost(host: string | undefined, hosts: ReadonlySet<string | undefined>): string {
  let domain = host === undefined ? 'example' : wildcardDomain(host)
  if (domain === undefined) return host ?? ''
  while (host === undefined && hosts.has(`*.${domain}`)) domain = `other.${domain}`
  return chooseText([...hosts], `other.${domain}`)
}

const slash: Step = { text: '', isNamed: true }

type Paths = Pick<Region, 'steps' | 'isOpen'>

function follow(alive: readonly Pattern[], steps: readonly Step[], other: Step): readonly Paths[] {
  const depth = steps.length
  const open = alive.filter((pattern) => isOpenAt(pattern, depth))
  const isEnd = alive.some((pattern) => pattern.length === depth && !isOpenAt(pattern, depth))
  const next = alive.filter((pattern) => !isOpenAt(pattern, depth)).flatMap((pattern) => pattern[depth] ?? [])
  const here = isEnd || open.length > 0 ? [{ steps, isOpen: !isEnd && next.length === 0 }] : []
  if (steps.at(-1)?.text === '') return here.map((paths) => ({ ...paths, isOpen: false }))
  if (next.length === 0) return isEnd && open.length > 0 ? [...here, { steps: [...steps, other], isOpen: true }] : here
  const texts = new Set(next.flatMap((segment) => (segment.kind === 'literal' ? segment.text : [])))
  const named = [...texts].filter((text) => text !== '').map((text): Step => ({ text, isNamed: true }))
  return [
    ...here,
    ...[...named, other, slash].flatMap((step) => {
      const left = alive.filter((pattern) => takes(pattern, depth, step.text))
      return left.length > 0 ? follow(left, [...steps, step], other) : []
    }),
  ]
}

const isOpenAt = (pattern: Pattern, depth: number): boolean =>
  pattern.at(-1)?.kind === 'rest' && pattern.length <= depth

function takes(pattern: Pattern, depth: number, text: string): boolean {
  if (isOpenAt(pattern, depth)) return true
  const segment = pattern[depth]
  if (segment?.kind === 'literal') return segment.text === text
  return segment !== undefined && text !== ''
}

export function chooseText(taken: readonly (string | undefined)[], wish: string): string {
  const names = new Set(taken.map((name) => name?.toLowerCase()))
  let name = wish
  for (let count = 2; names.has(name); count++) name = `${count}-${wish}`
  return name
}
