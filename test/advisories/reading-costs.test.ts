// In a process of its own: it measures processor time.
import fc from 'fast-check'
import t from 'tap'
import { redact, redactPath } from '../../gateway/observe/log/redact.ts'
import { compilePolicy } from '../../gateway/policy/compile.ts'
import type { RouteContent } from '../../gateway/policy/file.ts'
import { readTarget } from '../../gateway/stages/receive/target.ts'
import { otherReadings } from '../../gateway/stages/route/readings.ts'
import { compileRoutes, type RouteTable } from '../../gateway/stages/route/table.ts'
import type { JsonValue } from '../support/client.ts'
import { imaginePolicyFile } from '../support/policy-file.ts'
import { testVectors } from '../support/vectors.ts'
import { honestPaths } from './honest-paths.ts'
import { hostilePaths } from './hostile-paths.ts'
import { slowReadings } from './path-readings.ts'

const misreadable = { code: 'target_misreadable', status: 400 }
const read = (path: string) => readTarget('GET', path, 'h')

/** Characters that all readings of one path together may rewrite (docs/explanation/budgets.md). */
const mostCharacters = 98_304

/** The least processor time of several runs, in milliseconds. */
function measureMs(run: () => unknown, runs: number): number {
  let leastMs = Number.POSITIVE_INFINITY
  for (let again = 0; again < runs; again++) {
    const started = process.cpuUsage()
    for (let turn = 0; turn < 4; turn++) run()
    const { user, system } = process.cpuUsage(started)
    leastMs = Math.min(leastMs, (user + system) / 4_000)
  }
  return leastMs
}

// Anonymous processor time: 8 KiB with 256 readings took 26-40 ms, before authentication and every limit of rate.
t.test('the readings of a target of 8 KiB cost no more than reading it some times', async (t) => {
  const plainPath = `/${'%41'.repeat(2_700)}`
  const allowedMs = 60 * measureMs(() => read(plainPath), 50)
  for (const path of hostilePaths) {
    const look = (): void => {
      try {
        otherReadings(read(path))
      } catch {
        // A refusal is an answer; only its time counts.
      }
    }
    let tookMs = measureMs(look, 3)
    for (let again = 0; again < 5 && tookMs > allowedMs; again++) tookMs = Math.min(tookMs, measureMs(look, 10))
    if (tookMs > allowedMs) t.fail(`${path.slice(0, 60)}: ${tookMs.toFixed(2)} ms, allowed ${allowedMs.toFixed(2)}`)
  }
  t.ok(hostilePaths.length > 50)
})

/** A thousand routes, in part contested, behind an upstream's base path. */
function compileLargeTable(): RouteTable {
  const organizationRoles = ['org-client', 'org-member', 'org-admin', 'org-owner'].map((slug) => ({
    slug,
    name: slug,
    abilities: [],
  }))
  const routes = Array.from({ length: 1_000 }, (_, index): RouteContent => {
    const place = ['*', 'a/:x', 'a/b', 'A', ':x/:y', 'a/*', ':x', 'a'][index % 8] ?? ''
    const path = index < 8 ? `/${place}` : `/r${index}/${place}`
    const role = index % 3 === 0 ? 'org-owner' : 'org-member'
    return { id: `row.${index}`, match: { path }, surface: 'platform', upstream: 'up', require: { role } }
  })
  const file = imaginePolicyFile('routes.yaml', { organizationRoles, routes })
  const upstreams = new Map([['up', { origins: ['http://up.example'], basePath: '/base' }]])
  return compileRoutes(compilePolicy([file], upstreams).routes)
}

// 8 KiB took 7.9 ms: the path was redacted for each record, and routes were compared for each of its readings.
t.test(
  'all that is derived of a target costs no more than reading it some times, in a table of a thousand',
  async (t) => {
    const table = compileLargeTable()
    const derive = (path: string) => (): void => {
      try {
        table.match(read(path), 'h')
      } catch {
        // A refusal is an answer; only its time counts.
      }
      for (let records = 0; records < 4; records++) redactPath(path)
    }
    const plainPath = `/${'%41'.repeat(2_700)}`
    const allowedMs = 60 * measureMs(() => read(plainPath), 50)
    const paths = hostilePaths.flatMap((path) => [path, path.slice(0, 800)])
    for (const path of paths) {
      let tookMs = measureMs(derive(path), 3)
      for (let again = 0; again < 5 && tookMs > allowedMs; again++)
        tookMs = Math.min(tookMs, measureMs(derive(path), 10))
      if (process.env.SHOW) console.log(path.slice(0, 30), path.length, tookMs.toFixed(2), allowedMs.toFixed(2))
      if (tookMs > allowedMs) t.fail(`${path.slice(0, 60)}: ${tookMs.toFixed(2)} ms, allowed ${allowedMs.toFixed(2)}`)
    }
  },
)

t.test('a path of records is the beginning of the whole one, without credentials', async (t) => {
  const token = `oat_${'A'.repeat(40)}`
  for (const path of [
    `/a/${token}/b`,
    `/${'x'.repeat(300)}/${token}`,
    `/${`${token}/`.repeat(200)}`,
    `/${'%6Fat_'.repeat(900)}`,
  ])
    t.ok(redact(path).startsWith(redactPath(path)), path.slice(0, 40))
  for (let length = 1_000; length < 1_600; length += 7)
    for (const hidden of [`oat_${'A'.repeat(900)}`, `eyJ${'h'.repeat(900)}.x.y`, `%6Fat_${'A'.repeat(900)}`])
      t.notMatch(redactPath(`/${'b/'.repeat(length / 2)}${hidden}/z`), /oat_|eyJhh|%6Fat/)
})

t.test('a target whose readings take more work than any honest one is refused', async (t) => {
  const ending = '%252525252541;%253B%2520'
  t.throws(() => otherReadings(read(`/${'a/A'.repeat(2_500)}${ending}`)), misreadable)
  t.ok(otherReadings(read(`/a/A${ending}`)).length > 8, 'a short one passes')
})

t.test('honest paths are never refused', async (t) => {
  const random = fc.sample(fc.double({ min: 0, max: 0.999, noNaN: true }), { numRuns: 5_000, seed: 7 })
  let drawn = 0
  const draw = (): number => random[drawn++ % random.length] ?? 0
  for (const { kind, make } of honestPaths)
    for (let count = 0; count < 300; count++) {
      const path = make(draw)
      t.doesNotThrow(() => otherReadings(read(path)), `${kind}: ${path}`)
    }
})

type Outcome = ReadonlySet<string> | string

function settle(run: () => ReadonlySet<string>): Outcome {
  try {
    return run()
  } catch (error) {
    return String((error as { code?: string }).code)
  }
}

/** Whether both find the same; a refusal for its work alone needs that much work. */
function compare(path: string): void {
  let target: ReturnType<typeof read>
  try {
    target = read(path)
  } catch {
    return
  }
  const expected = settle(() => slowReadings(target))
  const found = settle(() => new Set(otherReadings(target).map((segments) => segments.join('\0'))))
  if (found === 'target_misreadable' && typeof expected !== 'string') {
    const sizes = [...expected, ''].map((reading) => Math.max(64, reading.length + path.length))
    const work = 10 * sizes.reduce((sum, size) => sum + size, 0)
    if (work < mostCharacters) throw new Error(`refused for work of ${work} characters: ${path}`)
  } else if (typeof expected === 'string' || typeof found === 'string') {
    if (expected !== found) throw new Error(`${String(found)} instead of ${String(expected)}: ${path}`)
  } else if (expected.size !== found.size || [...expected].some((reading) => !found.has(reading)))
    throw new Error(`other readings: ${JSON.stringify([path, [...expected], [...found]])}`)
}

const piece = fc.constantFrom(
  ...[
    'a',
    'B',
    'z.',
    '.',
    '..',
    ' ',
    ';',
    ';v',
    '%',
    '%41',
    '%2541',
    '%252541',
    '%20',
    '%2520',
    '%3B',
    '%253b',
    '%2F',
    '%3F',
    '%2523',
  ],
  ...[
    '%252E',
    '%2e',
    '%C5%BF',
    '%25C3%25A9',
    '%C3%A9',
    '%E2%80%A4',
    '%EF%BC%8F',
    '%EF%BC%85',
    '%EF%BC%9B',
    '%EF%BC%A1',
  ],
  ...[
    '%E3%80%80',
    '%C2%A0',
    '%CE%A3',
    '%E2%84%80',
    '%EF%BC%BC',
    '%EF%BC%8541',
    '%C4%B0',
    '%CC%81',
    '/',
    '/',
    '/',
    '%zz',
  ],
)
const generated = fc.array(piece, { minLength: 1, maxLength: 12 }).map((pieces) => `/${pieces.join('')}`)

t.test('changes that are left out would have changed nothing: the readings are those of the rule', async (t) => {
  fc.assert(fc.property(generated, compare), { numRuns: 60_000 })
  for (const { make } of honestPaths) for (let count = 0; count < 100; count++) compare(make(Math.random))
  t.pass()
})

const isVectors = (value: JsonValue): value is { cases: { target?: string; input?: string }[] } =>
  typeof value === 'object' && value !== null && 'cases' in value

for (const file of ['paths/bypass-templates.json', 'paths/normalise-pairs.json', 'paths/wpt-targets.json'])
  testVectors(t, file, `the targets of ${file} have the readings of the rule`, async (t, vectors) => {
    if (!isVectors(vectors)) throw new TypeError('no cases')
    for (const { target, input } of vectors.cases) {
      const path = target ?? input ?? ''
      for (const name of ['admin', 'Admin', '%61dmin'])
        t.doesNotThrow(() => compare(path.replaceAll(/\{P\w*\}/g, name)), path)
    }
  })
