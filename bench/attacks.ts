// The effect of an outsider's attacks on other clients: `npm run bench:attacks -- --help`.
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { availableParallelism, setPriority } from 'node:os'
import { Command, InvalidArgumentError } from 'commander'
import pg from 'pg'
import { type Owner, withOwner } from '../test/support/owner.ts'
import { readLoad } from '../test/support/process-figures.ts'
import { findBreaches, findWeaknesses, type Outcome } from './attacks/judge.ts'
import { attacks } from './attacks/list.ts'
import { play } from './attacks/play.ts'
import { checkOut, findCommit, workingTree } from './compare/checkout.ts'
import { listTree } from './peers/cpu-time.ts'
import { findLack } from './peers/find-program.ts'
import { startBackend } from './peers/nginx.ts'
import { otherCore } from './peers/peer.ts'
import { startBenchWorld } from './start-bench.ts'
import { renderTable } from './statistics.ts'

type Options = Readonly<{
  attack?: RegExp
  seconds: number
  warmUp: number
  rate: number
  scale: number
  commit: string
  out: string
}>

const options = new Command('bench:attacks')
  .description('Attack a gateway in a container of 512 MiB, and measure the effect on honest clients.')
  .option('--attack <pattern>', 'attacks whose names match, such as "paths|guesses"', parsePattern)
  .option('--seconds <n>', 'seconds of each phase: quiet, attack, and the same attack on nginx', parseCount, 20)
  .option('--warm-up <n>', 'seconds of load before the measurement', parseCount, 5)
  .option('--rate <n>', 'requests a second of honest clients', parseCount, 100)
  .option('--scale <part>', 'part of the full number of attackers, such as 0.1', parsePart, 1)
  .option('--commit <name>', 'commit to attack in place of the working tree', parseCommit, workingTree)
  .option('--out <file>', 'file for the figures', 'attacks.json')
  .addHelpText('after', `\nAttacks:\n${attacks.map(({ name, what }) => `  ${name.padEnd(16)} ${what}`).join('\n')}`)
  .addHelpText('after', '\nExits 1 where an honest request fails, the 99th percentile is above twice that in quiet and')
  .addHelpText(
    'after',
    'above nginx’s, memory above 512 MiB, or the admin listener takes more than 100 ms. The gateway',
  )
  .addHelpText('after', 'has processor 0; attackers get the idle time of the other one.')
  .addHelpText('after', '\nExamples:\n  $ npm run --silent bench:attacks -- --attack "paths" --seconds 10')
  .addHelpText('after', '  $ npm run --silent bench:attacks -- --commit HEAD~20')
  .showHelpAfterError('(add --help for usage and examples)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

const notify = (sentence: string): void => console.error(sentence)
const wanted = attacks.filter(({ name }) => options.attack === undefined || options.attack.test(name))

const interruption = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => interruption.abort(new Error(`ended by ${signal}`)))

try {
  if (wanted.length === 0)
    throw new Error(`no attack has such a name; there are ${attacks.map(({ name }) => name).join(', ')}`)
  if (availableParallelism() < 2) throw new Error('it takes two processors, one of which attackers leave alone')
  const lack = ['nginx', 'taskset', 'chrt'].map((name) => findLack(name, 'Debian: apt-get install')).find(Boolean)
  if (lack !== undefined) throw new Error(lack)
  const outcomes = await withOwner(measure)
  const figures = outcomes.map((outcome) => ({
    ...outcome,
    breaches: findBreaches(outcome),
    weaknesses: findWeaknesses(outcome),
  }))
  writeFileSync(options.out, `${JSON.stringify(figures, null, 2)}\n`)
  console.log(`${render(outcomes)}\n\nload of the machine at the end: ${readLoad()}`)
  process.exitCode = figures.some(({ breaches }) => breaches.length > 0) ? 1 : 0
} catch (error) {
  // After an interruption, every failure follows from it.
  const cause: unknown = interruption.signal.reason ?? error
  console.error(`bench:attacks: ${cause instanceof Error ? cause.message : String(cause)}`)
  process.exitCode = 1
}

async function measure(owner: Owner): Promise<readonly Outcome[]> {
  notify('starting a database, an issuer and a backend')
  const world = await startBenchWorld(owner)
  const database = new pg.Client({ connectionString: world.databaseUrl })
  await database.connect()
  owner.teardown(() => database.end())
  const backendPort = await startBackend(owner)
  const checkout = checkOut(owner, options.commit)
  putAside(world.pids.postgres ?? 0)
  const ground = { ...options, world, database, backendPort, checkout, notify, interruption: interruption.signal }
  const outcomes: Outcome[] = []
  for (const attack of wanted) {
    const outcome = await play(attack, ground)
    outcomes.push(outcome)
    const told = [...findBreaches(outcome), ...findWeaknesses(outcome)]
    notify(`${attack.name}: ${told.length === 0 ? 'kept' : told.join('; ')}`)
  }
  return outcomes
}

/** Clients and servers share the other processor. Honest clients come first there, since their clock must be right. */
function putAside(postgres: number): void {
  for (const pid of [process.pid, ...(postgres > 0 ? listTree(postgres) : [])])
    execFileSync('taskset', ['-a', '-p', '-c', otherCore, String(pid)], { stdio: 'ignore' })
  try {
    setPriority(-10)
  } catch {
    notify('honest clients have no priority, which only root may give: their times include waits behind attackers')
  }
}

function render(outcomes: readonly Outcome[]): string {
  const head = ['', 'p50 quiet ms', 'p99 quiet', 'p50 attacked', 'p99 attacked', 'p99 nginx', 'failed', 'RSS MiB']
  const lines = outcomes.map((outcome) => {
    const { name, quiet, attacked, nginx, peakBytes, adminMs, cpuShare, told } = outcome
    const times = [quiet.p50Ms, quiet.p99Ms, attacked.p50Ms, attacked.p99Ms, nginx?.p99Ms ?? Number.NaN]
    return [
      name,
      ...times.map((ms) => ms.toFixed(1)),
      `${attacked.failed}/${attacked.asked}`,
      (peakBytes / 1024 / 1024).toFixed(0),
      adminMs.toFixed(0),
      `${(100 * cpuShare).toFixed(0)} %`,
      `${(told.begun / told.seconds).toFixed(0)}/s`,
      findBreaches(outcome).length === 0 ? 'kept' : 'BROKEN',
    ]
  })
  return renderTable([[...head, 'admin max ms', 'processor', 'attack', ''], ...lines])
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

function parsePart(value: string): number {
  const part = Number(value)
  if (!(part > 0 && part <= 1)) throw new InvalidArgumentError('It must be a number above 0, and 1 at most.')
  return part
}

function parsePattern(value: string): RegExp {
  try {
    return new RegExp(value)
  } catch {
    throw new InvalidArgumentError('It must be a regular expression.')
  }
}
