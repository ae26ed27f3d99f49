import { type PatternSegment, parsePattern, type Route } from '../policy/route.ts'

/** A segment of a region's paths: one text, or any that no row names there. */
export type Step = Readonly<{ text: string; isNamed: boolean }>

/** Requests that no row of those asked about tells apart; the texts of its steps are a path that stands for all of them. */
export type Region = Readonly<{
  /** Undefined for every host that no row names. */
  host: string | undefined
  steps: readonly Step[]
  /** Whether longer paths belong to it as well. */
  isOpen: boolean
  /** One of its hosts. */
  exampleHost: string
}>

type Pattern = readonly PatternSegment[]

/**
 * Divides the requests that any of the rows could serve. What `compileRoutes` finds for a path depends on three things
 * alone: how many segments it has, whether the last one is empty, and for each segment which of the literals it equals
 * that rows have at this place behind what the path began with. So it is enough to follow the rows segment by segment,
 * once with each such literal, and once with a text that is none of them. All rows are followed together, so where one
 * overlaps another, each side of the overlap becomes a region of its own.
 */
export function listRegions(rows: readonly Pick<Route, 'host' | 'path'>[]): readonly Region[] {
  const hosts = new Set(rows.map(({ host }) => host))
  const otherHost = chooseOther([...hosts], 'other.example')
  const named = rows
    .flatMap(({ path }) => parsePattern(path))
    .flatMap((part) => (part.kind === 'literal' ? part.text : []))
  const other: Step = { text: chooseOther(named, 'other'), isNamed: false }
  return [...new Set([undefined, ...hosts])].flatMap((host) => {
    const patterns = rows
      .filter((row) => row.host === undefined || row.host === host)
      .map(({ path }) => parsePattern(path))
    return follow(patterns, [], other).map((paths): Region => ({ host, exampleHost: host ?? otherHost, ...paths }))
  })
}

/** The empty last segment of a path that ends in a slash. */
const slash: Step = { text: '', isNamed: true }

type Paths = Pick<Region, 'steps' | 'isOpen'>

/** All regions behind a beginning; `alive` are the patterns that it has not ruled out. */
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

/** Past its `*` a pattern takes whatever comes. */
const isOpenAt = (pattern: Pattern, depth: number): boolean =>
  pattern.at(-1)?.kind === 'rest' && pattern.length <= depth

function takes(pattern: Pattern, depth: number, text: string): boolean {
  if (isOpenAt(pattern, depth)) return true
  const segment = pattern[depth]
  if (segment?.kind === 'literal') return segment.text === text
  return segment !== undefined && text !== ''
}

function chooseOther(taken: readonly (string | undefined)[], wish: string): string {
  const names = new Set(taken.map((name) => name?.toLowerCase()))
  let name = wish
  for (let count = 2; names.has(name); count++) name = `${count}-${wish}`
  return name
}
