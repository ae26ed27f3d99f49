// How long a replica goes on accepting what was taken away elsewhere: `npm run bench:revocation -- --help`.
import { Command, InvalidArgumentError } from 'commander'
import { type Owner, withOwner } from '../support/owner.ts'
import { createChanges } from './changes.ts'
import { type Figures, runChange } from './run-change.ts'
import { startBench } from './start-bench.ts'
import { renderTable } from './statistics.ts'

type Options = Readonly<{ count: number; redis?: boolean; json?: boolean }>

const { count, redis, json } = new Command('bench:revocation')
  .description('Measures how fast a change of rights is felt at another replica.')
  .option('--count <n>', 'changes of each kind', parseCount, 1_000)
  .option('--redis', 'with a Redis between the replicas: the one at REDIS_URL, else one of its own')
  .option('--json', 'print one line of JSON for each kind instead of the table')
  .addHelpText('after', '\nExits 1 where a change took more than a second, or was not felt for good.')
  .addHelpText('after', '\nExample:\n  $ npm run --silent bench:revocation -- --count 200 --redis --json')
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

const interruption = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => interruption.abort(new Error(`ended by ${signal}`)))

try {
  const figures = await withOwner(measure)
  if (!json) console.log(renderFigures(figures))
  process.exitCode = figures.every(isKept) ? 0 : 1
} catch (error) {
  // Once interrupted, whatever fails fails of that.
  const cause: unknown = interruption.signal.reason ?? error
  console.error(`bench:revocation: ${cause instanceof Error ? cause.message : String(cause)}`)
  process.exitCode = 1
}

async function measure(owner: Owner): Promise<readonly Figures[]> {
  const notify = (sentence: string): void => console.error(sentence)
  notify('starting a database and two replicas')
  const bench = await startBench(owner, redis === true)
  const options = { ...bench, count, notify, signal: interruption.signal, nowMs: () => performance.now() }
  const all: Figures[] = []
  for (const change of createChanges(bench)) {
    const figures = await runChange(change, options)
    if (json) console.log(JSON.stringify(figures))
    all.push(figures)
  }
  return all
}

/** The promise: effective within a second, and from then on for good. */
function isKept({ maxMs, acceptedAfter }: Figures): boolean {
  return maxMs <= 1_000 && acceptedAfter === 0
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
