import fc from 'fast-check'
import t from 'tap'
import { diffPolicies, type PolicyDiff } from '../../../gateway/analyze/diff/diff.ts'
import { listWidenings } from '../../../gateway/analyze/diff/list-widenings.ts'
import type { Policy } from '../../../gateway/policy/compile.ts'
import { type Asker, isWider, judgeBy, type Request, rowCount, type Verdict } from './brute-force.ts'
import { abilities, compileText, policyPairs } from './policy-pairs.ts'

// In `npm test` enough to see that it runs and finds widenings; `CAMPAIGN=3000` takes a quarter of an hour.
const pairs = Number(process.env.CAMPAIGN) || 25

/** Another start tries other pairs. */
const firstSeed = Number(process.env.SEED) || 43

const ids = [...Array.from({ length: rowCount }, (_, index) => `${index + 1}`), '01', '99', 'nine']

/** Ids by two, thinned out by a step that has no common divisor with their number. */
const couples = ids.flatMap((first, at) => [0, 11].map((step) => [first, ids[(at * 7 + step) % ids.length]] as const))

const oddTargets = [
  ...['/A/N', '/b/N/', '/b/N;y', '/a/N.', '/b/N%252Fy', '/a/N%252Fc%252F2', '/a/N%3F/c/1', '/a/N%3F/1', '/N%3F/1'],
  ...['/b/%3FN', '/b%252FN/1', '/b%252FN%3F/1', '/a/%E2%91%A0/N', '/a/N/;', '/b/N/%3F', '/a%20/N', '/B/N%2Fy'],
]

const targets = [
  ...ids.flatMap((id) => [`/a/${id}`, `/b/${id}`, `/b/${id}%2Fy`]),
  ...couples.flatMap(([first, second]) => [`/a/${first}/c/${second}`, `/a/${first}/${second}`, `/${first}/${second}`]),
  ...ids.flatMap((id) => [`/a/1?thing=${id}`, `/b/1?thing=${id}`, `/a/1/2?thing=${id}`]),
  '/a/',
  '/b/',
  '/b/c/d/e',
  // Other servers read these as paths of other routes.
  ...['1', '2', '9', '99'].flatMap((id) => oddTargets.map((target) => target.replace('N', id))),
]

const requests: readonly Request[] = targets.flatMap((target, index) => {
  const header = index % 3 === 0 ? ids[index % ids.length] : undefined
  const method = index % 2 === 0 ? 'GET' : 'POST'
  const other = method === 'GET' ? 'POST' : 'GET'
  return [
    { method, host: 'h.example', target, header },
    { method: other, host: 'i.example', target, header: '1' },
  ]
})

const subsets = Array.from({ length: 2 ** abilities.length }, (_, mask) =>
  abilities.filter((_ability, index) => Math.floor(mask / 2 ** index) % 2 === 1),
)

function listAskers({ old, new: fresh }: Pair): readonly Asker[] {
  const roles = new Set([...old.roles.organization.keys(), ...fresh.roles.organization.keys()])
  const credentials = [
    { credential: 'oauth', abilities: undefined },
    { credential: 'api-key', abilities: 'scope' as const },
    ...subsets.map((held) => ({ credential: `token with ${held}`, abilities: held })),
  ]
  return [
    { role: 'anonymous', credential: 'none', platformRole: undefined, abilities: undefined },
    ...credentials.flatMap((credential) =>
      ['no organization', ...roles].flatMap((role) =>
        // A platform role shows what it adds by OAuth and by one token, and by all.
        (Array.isArray(credential.abilities) ? [undefined] : [undefined, 'platform']).map((platformRole) => ({
          role,
          platformRole,
          ...credential,
        })),
      ),
    ),
  ]
}

type Pair = Readonly<{ old: Policy; new: Policy }>

/** Each widening that trying finds, once for a pair of routes and a kind of caller, with a request that shows it. */
function tryAll(pair: Pair): ReadonlyMap<string, Found> {
  const sides = { old: judgeBy(pair.old), new: judgeBy(pair.new) }
  const askers = listAskers(pair)
  const found = new Map<string, Found>()
  for (const request of requests) {
    const [before, after] = [sides.old.find(request), sides.new.find(request)]
    if (!after) continue
    for (const asker of askers) {
      const now = sides.new.judge(after, request, asker)
      if (now.place === undefined) continue
      const was = sides.old.judge(before, request, asker)
      const kind = isWider(was, now)
      if (!kind) continue
      const places = before ? [{ old: before.route.id, new: now.route }] : listRefused(sides, request, asker, now)
      if (places.length === 0) continue
      const key = JSON.stringify([kind, request.method, places, now.route, asker.role, asker.credential])
      if (!found.has(key)) found.set(key, { kind, request, asker, was, now, places })
    }
  }
  return found
}

type Place = Readonly<{ old: string | undefined; new: string | undefined }>

/** The readings of a refused path at which the caller was refused; a caller who passed all of them gains nothing. */
function listRefused(
  sides: Readonly<Record<'old' | 'new', ReturnType<typeof judgeBy>>>,
  request: Request,
  asker: Asker,
  now: Verdict,
): readonly Place[] {
  const plain = sides.old.nameRoute(request)
  const readings = plain === undefined ? [] : sides.old.listReadings(request)
  // No route had the path, or its encoded slash was refused.
  if (readings.length === 0) return [{ old: plain, new: now.route }]
  const places = readings
    .filter(({ match }) => isWider(sides.old.judge(match, request, asker), now) === 'gains')
    .map(({ segments, match }) => ({
      match,
      old: match?.route.id,
      new: sides.new.nameRoute(request, segments),
      segments,
    }))
  const fresh = new Map(sides.new.listReadings(request).map(({ segments, match }) => [segments.join('\0'), match]))
  // A reading that the same route judges as before asks for another id than the path itself, and opened nothing.
  const changed = places.filter(
    ({ match, old, new: name, segments }) =>
      old === undefined ||
      old !== name ||
      isWider(
        sides.old.judge(match, request, asker),
        sides.new.judge(fresh.get(segments.join('\0')), request, asker),
      ) !== undefined,
  )
  return (changed.length > 0 ? changed : places).map((place) => ({ old: place.old, new: place.new }))
}

type Found = Readonly<{
  kind: 'gains' | 'elsewhere'
  request: Request
  asker: Asker
  was: Verdict
  now: Verdict
  places: readonly Place[]
}>

function isListed({ routes }: PolicyDiff, { kind, request, asker, now, places }: Found): boolean {
  const ofMethod = routes.filter(({ methods }) => methods.some((method) => method === request.method))
  const isOf = (role: string): boolean =>
    asker.platformRole === undefined ? role === asker.role : role === asker.role || role.startsWith('platform in ')
  return places.every((place) => {
    const here = ofMethod.filter(({ old, new: fresh }) => old?.route === place.old && fresh?.route === place.new)
    const opened = ofMethod.filter(
      ({ old, new: fresh, other }) =>
        old?.route === place.old && fresh?.route === now.route && other.some(({ what }) => what === 'other spellings'),
    )
    // A change of ids, paths or destination is listed for all callers of the two routes.
    if ([...here, ...opened].some(({ other }) => other.some(({ widens }) => widens))) return true
    return kind === 'gains' && here.some(({ gains }) => gains.some(({ role }) => isOf(role)))
  })
}

t.test('the list of widenings has each that trying requests finds', async (t) => {
  let [compared, widened, silent, needless, index] = [0, 0, 0, 0, 0]
  const missed: string[] = []
  // Texts that the compiler refuses make no pair.
  for (; compared < pairs; index += 1) {
    const [texts] = fc.sample(policyPairs, { numRuns: 1, seed: firstSeed + index })
    const [old, fresh] = [compileText(texts?.old ?? ''), compileText(texts?.new ?? '')]
    if (!old || !fresh) continue
    compared += 1
    const found = tryAll({ old, new: fresh })
    const diff = diffPolicies({ old, new: fresh })
    widened += found.size
    const isSeen = listWidenings(diff).length > 0
    if (found.size === 0) silent += 1
    if (found.size === 0 && isSeen) needless += 1
    const first = [...found.values()].find((one) => !isSeen || !isListed(diff, one))
    if (first) missed.push(`${JSON.stringify(first)} of seed ${firstSeed + index}`)
  }
  t.comment(`${compared} pairs, ${widened} widenings, ${missed.length} pairs with a missed one`)
  t.comment(`${silent} pairs without a widening, ${needless} of them with a listed one`)
  t.strictSame(missed.slice(0, 5), [])
  t.ok(widened > pairs, `${widened} widenings`)
})
