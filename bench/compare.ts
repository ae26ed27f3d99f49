// The cost of a change, by two commits beside each other in one run. `npm run bench:compare -- --help`.
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { Command, InvalidArgumentError } from 'commander'
import pg from 'pg'
import { type Owner, withOwner } from '../test/support/owner.ts'
import { readLoad } from '../test/support/process-figures.ts'
import { bearer } from '../test/support/world.ts'
import { type Checkout, checkOut, findCommit } from './compare/checkout.ts'
import { estimate, findSpread, judge } from './compare/estimate.ts'
import { type Paired, pair, type Side } from './compare/pair.ts'
import { type CompareFixture, listRows, manyTokens, streamsRow } from './compare/rows.ts'
import { startSide } from './compare/side.ts'
import { findLack } from './peers/find-program.ts'
import { keepAwake } from './peers/keep-awake.ts'
import { startBackend } from './peers/nginx.ts'
import { mintMany } from './peers/ours.ts'
import { otherCore } from './peers/peer.ts'
import { addClusters, addTokens } from './prepare-subjects.ts'
import { startBenchWorld } from './start-bench.ts'
import { findPercentile, renderTable } from './statistics.ts'

type Options = Readonly<{
  rounds: number
  seconds: number
  warmUp: number
  connections: number
  streams: number
  rows?: RegExp
  allow: ReadonlyMap<RegExp, number>
  out: string
}>

const command = new Command('bench:compare')
  .description('Compare the processor time of a request of two commits, in turns, after one commit with itself.')
  .argument('<A>', 'the old commit, by any name that git knows', parseCommit)
  .argument('<B>', 'the new commit, or "." for the working tree', parseCommit)
  .option('--rounds <n>', 'starts of each side; a confidence interval wants eight at least', parseCount, 8)
  .option('--seconds <n>', 'seconds of load in each turn; each row has two turns a round', parseCount, 1)
  .option('--warm-up <n>', 'seconds of load on a gateway that was just started', parseCount, 6)
  .option('--connections <n>', 'connections of the load', parseCount, 64)
  .option('--streams <n>', 'open streams while events are measured', parseCount, 500)
  .option('--rows <pattern>', 'rows whose names match, such as "^JWT|stream"', parsePattern)
  .option(
    '--allow <row=percent>',
    'percentage that rows whose names match may cost, in place of 3; may be repeated',
    addAllowance,
    new Map(),
  )
  .option('--out <file>', 'file for the figures', 'compare.json')
  .addHelpText(
    'after',
    '\nA row is worse where its ratio is above 1.03 by more than A differs from itself. Exits 1 then.',
  )
  .addHelpText('after', 'All rows take some forty minutes. --rounds 2 with a few rows finds large differences.')
  .addHelpText('after', '\nExamples:\n  $ npm run --silent bench:compare -- HEAD~1 HEAD')
  .addHelpText('after', '  $ npm run --silent bench:compare -- v1.2.0 . --rows "new|40[0-4]" --allow "every one new=6"')
  .showHelpAfterError('(add --help for usage and examples)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
const options = command.opts<Options>()
const [a = '', b = ''] = command.processedArgs as readonly string[]

const notify = (sentence: string): void => console.error(sentence)
const isWanted = (name: string): boolean => options.rows === undefined || options.rows.test(name)

const interruption = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => interruption.abort(new Error(`ended by ${signal}`)))

try {
  const lack = ['wrk', 'nginx', 'taskset'].map((program) => findLack(program, 'Debian: apt-get install')).find(Boolean)
  if (lack !== undefined) throw new Error(lack)
  const rows = await withOwner(measure)
  writeFileSync(options.out, `${JSON.stringify({ a, b, rounds: options.rounds, rows }, null, 2)}\n`)
  if (options.rounds < 8) notify('fewer than eight starts of each side: the intervals say little')
  console.log(`${render(rows)}\n\nload of the machine at the end: ${readLoad()}`)
  process.exitCode = rows.some(({ verdict }) => verdict === 'worse') ? 1 : 0
} catch (error) {
  // After an interruption, every failure follows from it.
  const cause: unknown = interruption.signal.reason ?? error
  console.error(`bench:compare: ${cause instanceof Error ? cause.message : String(cause)}`)
  process.exitCode = 1
}

async function measure(owner: Owner) {
  notify(keepAwake(owner))
  // Clients and servers have a processor of their own.
  execFileSync('taskset', ['-a', '-p', '-c', otherCore, String(process.pid)], { stdio: 'ignore' })
  notify(`building ${a} and ${b}`)
  const [left, right] = [checkOut(owner, a), checkOut(owner, b)]
  const backendPort = await startBackend(owner)
  const fixture = await prepare(owner, `http://127.0.0.1:${backendPort}`)
  const start =
    (checkout: Checkout): Side =>
    (ofThese) =>
      startSide(ofThese, checkout, fixture, {
        ...options,
        backendPort,
        warmUpSeconds: options.warmUp,
        isWanted,
        signal: interruption.signal,
      })
  const play = { restarts: options.rounds, signal: interruption.signal }
  const beside = await pair(start(left), start(left), {
    ...play,
    notify: (text) => notify(`${left.name} beside itself: ${text}`),
  })
  const changed = await pair(start(left), start(right), {
    ...play,
    notify: (text) => notify(`${left.name} beside ${right.name}: ${text}`),
  })
  return changed.map((row) =>
    summarise(
      row,
      beside.find(({ name }) => name === row.name),
    ),
  )
}

/** A database and an issuer with enough of everything; the schema is that of this tree, which is to be the newest. */
async function prepare(owner: Owner, cluster: string): Promise<CompareFixture> {
  notify('starting a database, a backend and an issuer')
  const world = await startBenchWorld(owner)
  const empty: CompareFixture = { world, jwts: [], apiTokens: [], cluster: 0 }
  const names = [streamsRow, ...listRows(empty).map(({ name }) => name)]
  if (!names.some(isWanted)) throw new Error(`no row has such a name; there are ${names.join('; ')}`)
  const database = new pg.Client({ connectionString: world.databaseUrl })
  await database.connect()
  owner.teardown(() => database.end())
  const [id = 0] = await addClusters(database, world, cluster, 1)
  const many = Array<number>(manyTokens).fill(world.serviceAccounts.robot.id)
  const apiTokens = (await addTokens(database, many)).map(({ token }) => bearer(token))
  return { world, jwts: await mintMany(world, manyTokens), apiTokens, cluster: id }
}

type Result = Readonly<ReturnType<typeof summarise>>

function summarise(row: Paired, beside: Paired | undefined) {
  const ratio = estimate(toRatios(row))
  const ofItself = estimate(toRatios(beside ?? row))
  const spread = findSpread(ofItself)
  const named = [...options.allow].find(([pattern]) => pattern.test(row.name))?.[1]
  return {
    name: row.name,
    leftMicros: findPercentile(row.left, 0.5),
    rightMicros: findPercentile(row.right, 0.5),
    ratio,
    beside: ofItself,
    spread,
    verdict: judge(ratio, spread, named),
  }
}

function toRatios({ left, right }: Paired): readonly number[] {
  return right.map((cost, restart) => cost / (left[restart] ?? Number.NaN))
}

function render(rows: readonly Result[]): string {
  const head = ['CPU µs/request', a, b, 'ratio', '95 %', `${a} beside itself`, 'spread', '']
  const lines = rows.map(({ name, leftMicros, rightMicros, ratio, beside, spread, verdict }) => [
    name,
    leftMicros.toFixed(1),
    rightMicros.toFixed(1),
    ratio.value.toFixed(3),
    `${ratio.low.toFixed(3)} to ${ratio.high.toFixed(3)}`,
    beside.value.toFixed(3),
    `${(spread * 100).toFixed(1)} %`,
    verdict,
  ])
  return renderTable([head, ...lines])
}

function parseCommit(value: string): string {
  const commit = findCommit(value)
  if (commit === undefined) throw new InvalidArgumentError('It must be a commit of this repository, or ".".')
  return commit
}

function parseCount(value: string): number {
  const count = Number(value)
  if (!Number.isInteger(count) || count < 1) throw new InvalidArgumentError('It must be a whole number above 0.')
  return count
}

function parsePattern(value: string): RegExp {
  try {
    return new RegExp(value)
  } catch {
    throw new InvalidArgumentError('It must be a regular expression.')
  }
}

function addAllowance(value: string, previous: ReadonlyMap<RegExp, number>): ReadonlyMap<RegExp, number> {
  const [, row = '', percent = ''] = /^(.+)=(\d{1,2})$/.exec(value) ?? []
  if (row === '') throw new InvalidArgumentError('It must be a pattern and whole percents, such as "every one new=6".')
  return new Map([...previous, [parsePattern(row), Number(percent)]])
}
