import { listDecidingNames } from '../../policy/deciding-values.ts'
import { coversHost } from '../../policy/host.ts'
import type { Region } from '../../policy/regions.ts'
import { listPathNames, type Method, methods, parsePattern, type Route } from '../../policy/route.ts'
import { isAtLeastAsStrict } from '../../policy/strictness.ts'
import { foldName, isAtLeast, nameUpstream, pathAtUpstream } from '../../policy/upstream-paths.ts'
import { levelsOf } from './classified-fields.ts'
import type { RoutePair } from './pairs.ts'

type RegionsByMethod = ReadonlyMap<Method, Region[]>

type Group = RoutePair & Readonly<{ regions: RegionsByMethod }>

/** Paths that only the old policy knows, and a kept route by which another spelling of them may pass now. */
export type OpenedReading = Readonly<{ dropped: Route | undefined; by: Route; regions: RegionsByMethod }>

/**
 * A path passes only if its caller may pass all its readings. So a dropped route opens the spellings that others serve:
 * without `/b/*`, `/b/:x` takes `/b/1%252Fy`. Any other change at a reading is a gain there, and listed as one.
 */
export function findOpenedReadings(groups: readonly Group[]): readonly OpenedReading[] {
  const lost = listLost(groups)
  if (lost.length === 0) return []
  const kept = listKept(groups)
  const places = { rewritten: listRewritten(groups), claims: listClaims(groups) }
  const opened = new Map<string, OpenedReading>()
  for (const { dropped, method, region } of lost)
    for (const pair of kept.get(method) ?? []) {
      if (!mayPass(pair, dropped, region) && !mayPassAtUpstream(pair, { dropped, method }, places)) continue
      const key = JSON.stringify([dropped?.id, pair.fresh.id])
      const known = opened.get(key) ?? { dropped, by: pair.fresh, regions: new Map(methods.map((name) => [name, []])) }
      opened.set(key, known)
      const regions = known.regions.get(method)
      if (!regions?.includes(region)) regions?.push(region)
    }
  return [...opened.values()]
}

type Lost = Readonly<{ dropped: Route | undefined; method: Method; region: Region }>

/** Paths without any route now, by each method: one that the path did not have was refused as well. */
function listLost(groups: readonly Group[]): readonly Lost[] {
  const lost = new Map<Region, Lost[]>()
  for (const { old, new: fresh, regions } of groups)
    for (const [method, all] of fresh ? [] : regions)
      for (const region of all) lost.set(region, [...(lost.get(region) ?? []), { dropped: old, method, region }])
  return [...lost.values()].flatMap((all) =>
    all.length === methods.length && all.some(({ dropped }) => dropped) ? all : [],
  )
}

type Kept = Readonly<{ old: Route; fresh: Route }>

const listKept = (groups: readonly Group[]): ReadonlyMap<Method, readonly Kept[]> =>
  new Map(
    methods.map((method) => [
      method,
      groups.flatMap(({ old, new: fresh, regions }) =>
        old && fresh && regions.get(method)?.length ? { old, fresh } : [],
      ),
    ]),
  )

/** Only where a path is rewritten do paths at the upstream count. */
const listRewritten = (groups: readonly Group[]): ReadonlySet<string> =>
  new Set(groups.flatMap(({ old }) => (old && pathAtUpstream(old) !== old.path ? nameUpstream(old) : [])))

/** Paths at the upstream that the new policy has: their routes judge the spellings of a dropped alias too. */
const listClaims = (groups: readonly Group[]): ReadonlySet<string> =>
  new Set(
    groups.flatMap(({ new: fresh }) => (fresh ? [...fresh.methods].map((method) => nameClaim(fresh, method)) : [])),
  )

const nameClaim = (route: Route, method: Method): string =>
  JSON.stringify([method, nameUpstream(route), pathAtUpstream(route).replace(/\/:[^/]+/g, '/:')])

// Routes of the old policy are compared, since ranks of two policies have no common scale.
const mayPass = ({ old, fresh }: Kept, dropped: Route | undefined, { host, steps, isOpen }: Region): boolean =>
  coversHost(fresh.host, host) &&
  mayReadAs(listTokens(fresh, fresh.path), {
    steps: steps.map(({ text, isNamed }) => (isNamed ? text : unnamed)),
    isOpen,
  }) &&
  (!isAtLeastAsStrict(old, dropped) || mayMoveIds(fresh, fresh.path))

type Places = Readonly<{ rewritten: ReadonlySet<string>; claims: ReadonlySet<string> }>

function mayPassAtUpstream(
  { old, fresh }: Kept,
  { dropped, method }: Pick<Lost, 'dropped' | 'method'>,
  { rewritten, claims }: Places,
): boolean {
  if (!dropped || !rewritten.has(nameUpstream(old)) || nameUpstream(old) !== nameUpstream(dropped)) return false
  if (claims.has(nameClaim(dropped, method))) return false
  const pattern = parsePattern(pathAtUpstream(dropped))
  const steps = pattern.map((segment) => (segment.kind === 'literal' ? segment.text : unnamed))
  const path = { steps, isOpen: pattern.at(-1)?.kind === 'rest' }
  return (
    mayReadAs(listTokens(fresh, pathAtUpstream(fresh)), path, true) &&
    (!isAtLeast(old, dropped) || mayMoveIds(fresh, pathAtUpstream(fresh)))
  )
}

/** Whether a name before an id may vanish or split, so that a server reads another id in a route that asks for the same. */
function mayMoveIds(route: Route, path: string): boolean {
  const names = listDecidingNames(route)
  const last = parsePattern(path).findLastIndex((segment) => segment.kind === 'param' && names.includes(segment.name))
  return listTokens(route, path).some((token, index) => index < last && (token.kind === 'any' || mayVanish(token)))
}

type Token = Readonly<
  { kind: 'literal'; text: string; isPlain: boolean } | { kind: 'id'; mayVanish: boolean } | { kind: 'any' }
>

/** An id that the gateway looks up has no characters by which servers read more segments, or the end of the path. */
function listTokens(route: Route, path: string): readonly Token[] {
  const { resource, organizationParam, isPublic } = route
  const ids = isPublic ? [] : [organizationParam, ...(resource ? listPathNames(resource) : [])]
  // Windows drops a name of dots alone.
  const mayVanish = levelsOf(route).some(({ idType }) => idType === 'text')
  return parsePattern(path).map((segment): Token => {
    if (segment.kind === 'literal') return readLiteral(segment.text)
    return segment.kind === 'param' && ids.includes(segment.name) ? { kind: 'id', mayVanish } : { kind: 'any' }
  })
}

function readLiteral(text: string): Token {
  const isPlain = foldName(text) === text
  return isPlain || /^[\w.~-]*$/.test(text) ? { kind: 'literal', text, isPlain } : { kind: 'any' }
}

const unnamed = undefined

type Readable = Readonly<{ steps: readonly (string | undefined)[]; isOpen: boolean }>

/** Whether some server may read a path of these tokens so. The answer is yes too often rather than too seldom. */
function mayReadAs(tokens: readonly Token[], { steps, isOpen }: Readable, isShifted = false): boolean {
  const last = steps.length - 1
  const follow = (at: number, place: number, isOdd: boolean): boolean => {
    const token = tokens[at]
    if (!token) return place > last
    if (token.kind === 'any') return true
    if (mayVanish(token) && follow(at + 1, place, true)) return true
    if (place > last && !isOpen) return false
    const isOther = token.kind === 'literal' && !token.isPlain
    return mayBe(token, steps[Math.min(place, last)], isOdd) && follow(at + 1, place + 1, isOdd || isOther)
  }
  return follow(0, 0, isShifted)
}

const mayVanish = (token: Exclude<Token, { kind: 'any' }>): boolean =>
  token.kind === 'id' ? token.mayVanish : foldName(token.text) === ''

/** A plain literal in its own place is named there, unless an odd one stands before it. */
function mayBe(token: Exclude<Token, { kind: 'any' }>, step: string | undefined, isOdd: boolean): boolean {
  if (token.kind === 'id') return step !== ''
  return step === unnamed ? isOdd || !token.isPlain : foldName(step) === foldName(token.text)
}
