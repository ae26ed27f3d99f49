// The time for which a replica accepts rights that were taken away elsewhere: `npm run bench:revocation -- --help`.
import { Command, InvalidArgumentError } from 'commander'
import { type Owner, withOwner } from '../test/support/owner.ts'
import { findMeasureLack } from '../test/support/process-figures.ts'
import { createChanges } from './changes.ts'
import { type OpenFigures, runOpenChanges } from './open-changes.ts'
import { type Figures, runChange } from './run-change.ts'
import { startBench, startStreaming } from './start-bench.ts'
import { renderTable } from './statistics.ts'

type Options = Readonly<{ count: number; open: number; atOnce: number; redis?: boolean; json?: boolean }>

const { count, open, atOnce, redis, json } = new Command('bench:revocation')
  .description('Measure how fast a change of rights takes effect at another replica, and ends open exchanges at two.')
  .option('--count <n>', 'changes of each kind', parseCount, 1_000)
  .option(
    '--open <n>',
    'open exchanges, each of a caller of its own; 4 times --count and 5 times --at-once of them end',
    parseCount,
    10_000,
  )
  .option(
    '--at-once <n>',
    'members who lose their organization in one statement, five times in turn',
    parseCount,
    1_000,
  )
  .option('--redis', 'with a Redis between the replicas: the one at REDIS_URL, else one of its own')
  .option('--json', 'print one line of JSON for each kind instead of the table')
  .addHelpText('after', '\nExits 1 where a change took more than a second or did not last, where an exchange')
  .addHelpText(
    'after',
    'whose rights did not change was harmed, where a 99th percentile of the ends is above 250 ms, or where such statements',
  )
  .addHelpText('after', "more than double the 99th percentile of other callers' requests.")
  .addHelpText('after', '\nExample:\n  $ npm run --silent bench:revocation -- --count 200 --open 2000 --redis --json')
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

const notify = (sentence: string): void => console.error(sentence)
const interruption = new AbortController()
const measuring = { count, notify, signal: interruption.signal, nowMs: () => performance.now() }
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => interruption.abort(new Error(`ended by ${signal}`)))

try {
  const lack = findMeasureLack(open)
  if (lack !== undefined) throw new Error(lack)
  const ends = await withOwner(measureEnds)
  const figures = await withOwner(measureRequests)
  if (!json) console.log(`${renderFigures(figures)}\n\n${renderEnds(ends)}`)
  process.exitCode = figures.every(isKept) && areKept(ends) ? 0 : 1
} catch (error) {
  // After an interruption, every failure follows from it.
  const cause: unknown = interruption.signal.reason ?? error
  console.error(`bench:revocation: ${cause instanceof Error ? cause.message : String(cause)}`)
  process.exitCode = 1
}

async function measureRequests(owner: Owner): Promise<readonly Figures[]> {
  notify('starting a database and two replicas')
  const bench = await startBench(owner, redis === true)
  const all: Figures[] = []
  for (const change of createChanges(bench)) {
    const figures = await runChange(change, { ...bench, ...measuring })
    if (json) console.log(JSON.stringify(figures))
    all.push(figures)
  }
  return all
}

async function measureEnds(owner: Owner): Promise<OpenFigures> {
  notify('starting a database and two replicas, behind which streams stay open')
  const bench = await startBench(owner, redis === true, startStreaming)
  const figures = await runOpenChanges(owner, createChanges(bench), bench, { ...measuring, open, atOnce })
  if (json) console.log(JSON.stringify(figures))
  return figures
}

/** The promise: effective within a second, and from then on for good. */
function isKept({ maxMs, acceptedAfter }: Figures): boolean {
  return maxMs <= 1_000 && acceptedAfter === 0
}

function areKept({ ended, atOnce, harmed }: OpenFigures): boolean {
  const { maxMs, othersBeforeMs, othersAfterMs } = atOnce
  const isQuiet = maxMs <= 1_000 && othersAfterMs <= 2 * othersBeforeMs
  return harmed === 0 && isQuiet && ended.every((figures) => isKept(figures) && figures.p99Ms <= 250)
}

function renderEnds({ ended, atOnce, bystanders, harmed }: OpenFigures): string {
  const head = ['open streams, ended by', 'count', 'median ms', 'p99 ms', 'max ms', 'went on']
  const rows = ended.map(({ change, count, medianMs, p99Ms, maxMs, acceptedAfter }) => [
    change,
    ...[count, medianMs, p99Ms, maxMs, acceptedAfter].map(String),
  ])
  const mass = renderTable([
    ['at once', 'p99 ms', 'max ms', "others' p99 ms before", 'and after'],
    [atOnce.members, atOnce.p99Ms, atOnce.maxMs, atOnce.othersBeforeMs, atOnce.othersAfterMs].map(String),
  ])
  return `${renderTable([head, ...rows])}\n\n${mass}\n\nof ${bystanders} others, harmed: ${harmed}`
}

function renderFigures(all: readonly Figures[]): string {
  const head = ['change', 'count', 'median ms', 'p99 ms', 'max ms', 'accepted after']
  const rows = all.map(({ change, count, medianMs, p99Ms, maxMs, acceptedAfter }) => [
    change,
    ...[count, medianMs, p99Ms, maxMs, acceptedAfter].map(String),
  ])
  return renderTable([head, ...rows])
}

function parseCount(text: string): number {
  if (!/^[1-9]\d{0,4}$/.test(text)) throw new InvalidArgumentError('not a number from 1 to 99999')
  return Number(text)
}
