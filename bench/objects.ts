// Time and cost of the checks of guarded resources: `npm run bench:objects -- --help`.
import { Command, InvalidArgumentError } from 'commander'
import { withOwner } from '../test/support/owner.ts'
import { readLoad } from '../test/support/process-figures.ts'
import { measureCheck, measureRatio } from './objects/costs.ts'
import { startObjectsFixture } from './objects/fixture.ts'
import { measurePairs, type Pairs } from './objects/times.ts'
import { findLack } from './peers/find-program.ts'
import { findPercentile, renderTable } from './statistics.ts'

type Options = Readonly<{ pairs: number; rounds: number; seconds: number; json?: boolean }>

const { pairs, rounds, seconds, json } = new Command('bench:objects')
  .description('Measure the time of foreign and absent objects, and the cost of a cached check and a request with it.')
  .option('--pairs <n>', 'pairs of a foreign and an absent id, each asked for in random order', parseCount, 10_000)
  .option('--rounds <n>', 'turns of load with a resource, and as many without', parseCount, 20)
  .option('--seconds <n>', 'seconds of load in each turn', parseCount, 1)
  .option('--json', 'print one line of JSON instead of the tables')
  .addHelpText(
    'after',
    `\nExits 1 where Welch's |t| is 4.5 or more, a check takes more than 2 µs, or a request with one`,
  )
  .addHelpText('after', 'costs more than 1.05 times one without.')
  .addHelpText('after', '\nExample:\n  $ npm run --silent bench:objects -- --pairs 2000 --rounds 4')
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

const limits = { t: 4.5, checkMicros: 2, ratio: 1.05 }
const interruption = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => interruption.abort(new Error(`ended by ${signal}`)))

try {
  const lack = ['wrk', 'nginx', 'taskset'].map((program) => findLack(program, 'Debian: apt-get install')).find(Boolean)
  if (lack !== undefined) throw new Error(lack)
  const checkMicros = await measureCheck()
  const { times, cost } = await withOwner(async (owner) => {
    console.error('starting a database, a backend and a gateway')
    const fixture = await startObjectsFixture(owner, pairs)
    const { signal } = interruption
    const ratios = await measureRatio(owner, fixture, { rounds, seconds, signal })
    console.error(`${pairs} pairs of ids that were not asked for before, and as many of ids that were`)
    const asked = [
      await measurePairs(fixture, { name: 'not asked for before', isRepeated: false, signal }),
      await measurePairs(fixture, { name: 'asked for before', isRepeated: true, signal }),
    ]
    return { times: asked, cost: ratios }
  })
  const ratio = findPercentile(cost.ratios, 0.5)
  const kept = [
    ...times.map(({ t }) => Math.abs(t) < limits.t),
    checkMicros <= limits.checkMicros,
    ratio <= limits.ratio,
  ]
  if (json) console.log(JSON.stringify({ times, checkMicros, ratio, cost, load: readLoad() }))
  else console.log(render(times, checkMicros, ratio, cost))
  process.exitCode = kept.every(Boolean) ? 0 : 1
} catch (error) {
  // After an interruption, every failure follows from it.
  const cause: unknown = interruption.signal.reason ?? error
  console.error(`bench:objects: ${cause instanceof Error ? cause.message : String(cause)}`)
  process.exitCode = 1
}

function render(
  times: readonly Pairs[],
  checkMicros: number,
  ratio: number,
  { withMicros, withoutMicros }: Awaited<ReturnType<typeof measureRatio>>,
): string {
  const pairsTable = renderTable([
    ['ids', 'pairs', 'foreign µs', 'absent µs', "Welch's t", 'of the fastest 90 %'],
    ...times.map(({ name, count, foreignMicros, absentMicros, t, fastT }) => [
      name,
      String(count),
      foreignMicros.toFixed(1),
      absentMicros.toFixed(1),
      t.toFixed(2),
      fastT.toFixed(2),
    ]),
  ])
  const costTable = renderTable([
    ['cost', 'measured', 'limit'],
    ['a cached check, µs', checkMicros.toFixed(2), limits.checkMicros.toFixed(2)],
    ['CPU µs of a request with a check', findPercentile(withMicros, 0.5).toFixed(1), ''],
    ['CPU µs of a request without', findPercentile(withoutMicros, 0.5).toFixed(1), ''],
    ['ratio, median of turns', ratio.toFixed(3), limits.ratio.toFixed(2)],
  ])
  return `${pairsTable}\n\n${costTable}\n\nload of the machine at the end: ${readLoad()}`
}

function parseCount(text: string): number {
  const count = Number(text)
  if (Number.isInteger(count) && count > 0) return count
  throw new InvalidArgumentError('It must be a whole number above 0.')
}
