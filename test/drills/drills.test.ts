import { readFileSync } from 'node:fs'
import t from 'tap'
import { parse } from 'yaml'
import type { Drill } from '../../drills/drill.ts'
import type { Flow, FlowName, Flows } from '../../drills/flows.ts'
import { judge, type Played } from '../../drills/judge.ts'
import { listDrills } from '../../drills/list-drills.ts'
import type { Sample } from '../../drills/load.ts'

const drills = await listDrills()
const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

t.test('each drill is described, and each alert that has one leads to it', async (t) => {
  const page = read('docs/guides/drills.md')
  const runbook = read('docs/guides/runbook.md')
  const alerts = new Set(
    [...read('helm/sallyport/files/alerts.yaml').matchAll(/alert: (\w+)/g)].map(([, name]) => name),
  )
  for (const [name, drill] of drills) {
    t.match(page, `| \`${name}\` |`, name)
    for (const alert of drill.alerts ?? []) {
      t.ok(alerts.has(alert), alert)
      const section = runbook.split('\n### ').find((text) => text.startsWith(`${alert}\n`)) ?? ''
      t.match(section, `npm run drill -- ${name}`, `${alert} leads to ${name}`)
    }
  }
  for (const [, name = ''] of `${page}${runbook}`.matchAll(/npm run drill -- ([a-z][a-z-]*)/g))
    t.ok(drills.has(name) || ['dependencies', 'defences'].includes(name), name)
})

t.test('each cell that a drill plays stands in the page on outages, and each drill there plays it', async (t) => {
  const rows = [...read('docs/explanation/outages.md').matchAll(/^\| ([^|]+) \| ([^|]+) \|.*\| ([^|]*)\|$/gm)].slice(1)
  t.ok(rows.length > 20)
  const cellsOf = ([, dependency = '', faults = '']: RegExpMatchArray): readonly string[] =>
    faults.split(', ').map((fault) => `${dependency} ${fault}`)
  const namesOf = ([, , , names = '']: RegExpMatchArray): readonly string[] =>
    [...names.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
  for (const [name, { cells }] of drills)
    for (const cell of cells)
      t.ok(
        rows.some((row) => namesOf(row).includes(name) && cellsOf(row).includes(cell.join(' '))),
        `${name}: ${cell.join(' ')}`,
      )
  for (const row of rows)
    for (const name of namesOf(row))
      t.ok(
        drills.get(name)?.cells.some((cell) => cellsOf(row).includes(cell.join(' '))),
        `${name} in the row of ${cellsOf(row).join(', ')}`,
      )
})

const flow = (usual: readonly number[], isForbidden: boolean): Flow => ({
  weight: 1,
  path: '/',
  headers: () => ({}),
  usual,
  isForbidden,
})

/** Two flows alone: one that must pass, and one that must not. */
const flows = { public: flow([200], false), revoked: flow([401], true) } as unknown as Flows

const samplesOf = (name: FlowName, statuses: readonly [number, number, number], tookMs = 1): readonly Sample[] =>
  statuses.flatMap((status, phase) =>
    Array.from({ length: 10 }, (_, index) => ({ flow: name, dueMs: phase * 1_000 + index, tookMs, status })),
  )

const quiet = { rssBytes: 0, descriptors: 0, connections: 0 }
const well = [...samplesOf('public', [200, 200, 200]), ...samplesOf('revoked', [401, 401, 401])]
const playedAs = (samples: readonly Sample[], more: Partial<Played> = {}): Played => ({
  ...{ samples, startedMs: 0, beganMs: 1_000, endedMs: 2_000, reached: ['public-1'] },
  holdings: { before: quiet, highest: quiet, after: quiet },
  ...more,
})
const drillOf = (expect: Drill['expect'] = {}): Drill => ({
  ...{ about: 'nothing', cells: [], begin: () => undefined, end: () => undefined, expect },
})
const missedOf = (played: Played, drill = drillOf(), judgesLatency = true): readonly string[] =>
  judge(drill, flows, played, { judgesLatency, patience: 1 }).flatMap(({ check, isMet }) => (isMet ? [] : [check]))

t.test('a drill in which nothing happens holds every limit', async (t) => {
  t.same(missedOf(playedAs(well)), [])
})

t.test('each limit is missed where it should be', async (t) => {
  const revoked = samplesOf('revoked', [401, 401, 401])
  const cases: readonly (readonly [string, readonly string[]])[] = [
    ['an unharmed flow is refused', missedOf(playedAs([...samplesOf('public', [200, 503, 200]), ...revoked]))],
    [
      'a forbidden one is accepted',
      missedOf(playedAs([...samplesOf('public', [200, 200, 200]), ...samplesOf('revoked', [401, 200, 401])])),
    ],
    ['it arrives at the upstream', missedOf(playedAs(well, { reached: ['public-1', 'revoked-2'] }))],
    ['nothing arrives', missedOf(playedAs(well, { reached: [] }))],
    ['the fault is not felt', missedOf(playedAs(well), drillOf({ public: { statuses: [503], withinMs: 10 } }))],
    [
      'a refusal comes late',
      missedOf(
        playedAs([...samplesOf('public', [200, 503, 200], 11), ...revoked]),
        drillOf({ public: { statuses: [503], withinMs: 10 } }),
      ),
    ],
    [
      'too many are refused',
      missedOf(
        playedAs([...samplesOf('public', [200, 503, 200]), ...revoked]),
        drillOf({ public: { statuses: [503], withinMs: 10, share: 0.5 } }),
      ),
    ],
    [
      'memory grows',
      missedOf(playedAs(well, { holdings: { before: quiet, highest: { ...quiet, rssBytes: 1e8 }, after: quiet } })),
    ],
    [
      'descriptors stay',
      missedOf(playedAs(well, { holdings: { before: quiet, highest: quiet, after: { ...quiet, descriptors: 500 } } })),
    ],
    ['a flow was not sent', missedOf(playedAs(revoked))],
    ['it is not good again', missedOf(playedAs([...well, { flow: 'public', dueMs: 4_001, tookMs: 1, status: 503 }]))],
    [
      'an unharmed flow is slow',
      missedOf(
        playedAs(well.map((sample) => ({ ...sample, tookMs: sample.dueMs >= 1_000 && sample.dueMs < 2_000 ? 50 : 1 }))),
      ),
    ],
  ]
  for (const [name, missed] of cases) t.ok(missed.length > 0, `${name}: ${missed.join(', ')}`)
})

t.test('the gate plays the short set, and .ci/drills all of them', async (t) => {
  t.match(read('.ci/drills'), 'npm run drill -- --all')
  t.equal(parse(read('package.json')).scripts.drill, 'node bench/run.js ../drills/run')
})
