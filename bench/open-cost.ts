// The memory of an open exchange: `npm run bench:open-cost -- --help`.
import { Command, InvalidArgumentError } from 'commander'
import pg from 'pg'
import { until } from '../test/support/gateway.ts'
import { type Owner, withOwner } from '../test/support/owner.ts'
import {
  countDescriptors,
  findMeasureLack,
  measurable,
  readLoad,
  readSettledFigures,
} from '../test/support/process-figures.ts'
import { serveFile } from '../test/support/replicas.ts'
import { type Checkout, checkOut, findCommit, workingTree } from './compare/checkout.ts'
import { anyPort, writeMinimal } from './compare/configure.ts'
import { openExchanges } from './open-changes.ts'
import { addMembers, type Member } from './prepare-subjects.ts'
import { startBenchWorld, startStreaming } from './start-bench.ts'
import { renderTable } from './statistics.ts'

type Options = Readonly<{ open: number; rounds: number }>

const program = new Command('bench:open-cost')
  .description(
    'Open event streams, each of a caller of its own, and measure how much heap of the gateway each of them holds.',
  )
  .argument('[commits...]', 'the commits to compare, "." for the working tree', [workingTree])
  .option('--open <n>', 'number of streams', parseCount, 10_000)
  .option('--rounds <n>', 'gateways of each commit, by turns', parseCount, 2)
  .addHelpText('after', '\nExample:\n  $ npm run --silent bench:open-cost -- HEAD~1 . --open 2000')
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()

const { open, rounds } = program.opts<Options>()

try {
  const lack = findMeasureLack(2 * open)
  if (lack !== undefined) throw new Error(lack)
  await withOwner(measureAll)
} catch (error) {
  console.error(`bench:open-cost: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}

async function measureAll(owner: Owner): Promise<void> {
  const commits = program.args.length > 0 ? program.args : [workingTree]
  const unknown = commits.find((commit) => findCommit(commit) === undefined)
  if (unknown !== undefined) throw new Error(`${unknown} is no commit`)
  const checkouts = commits.map((commit) => checkOut(owner, commit))
  const world = await startBenchWorld(owner)
  const upstream = await startStreaming(owner)
  const database = new pg.Client({ connectionString: world.databaseUrl })
  await database.connect()
  owner.teardown(() => database.end())
  const members = await addMembers(database, world, open)
  const rows: string[][] = []
  for (let round = 0; round < rounds; round++)
    for (const checkout of checkouts) {
      console.error(`round ${round + 1} of ${rounds}: ${checkout.name}`)
      rows.push(await withOwner((owner) => measure(owner, checkout, { world, upstream, members })))
    }
  console.log(renderTable([['build', 'streams', 'heap bytes each', 'external bytes each', 'load'], ...rows.sort()]))
}

type OpenCostFixture = Readonly<{
  world: Awaited<ReturnType<typeof startBenchWorld>>
  upstream: string
  members: readonly Member[]
}>

/**
 * The heap with all streams open, less the heap once they are closed. Caches keep their part of each caller in both, so it
 * does not count.
 */
async function measure(
  owner: Owner,
  checkout: Checkout,
  { world, upstream, members }: OpenCostFixture,
): Promise<string[]> {
  const maxConnections = Math.ceil(members.length / 0.8)
  const listeners = { public: { ...anyPort, maxConnections }, decision: anyPort, admin: anyPort }
  const file = writeMinimal(owner, checkout, world, { settings: { listeners } }, { platform: upstream })
  const gateway = await serveFile(owner, file, measurable, checkout.build)
  const idle = countDescriptors(gateway.pid)
  const subjects = members.map(({ headers }) => ({ path: '/datasets', headers }))
  const watched = await openExchanges(owner, [gateway.public], subjects, () => performance.now())
  const during = await readSettledFigures(gateway)
  for (const { socket } of watched) socket.destroy()
  await until(() => countDescriptors(gateway.pid) <= idle + 20, 'the end of the streams', 60_000)
  const after = await readSettledFigures(gateway)
  const each = (read: (figures: typeof after) => number): string =>
    ((read(during) - read(after)) / members.length).toFixed(0)
  return [
    checkout.name,
    String(members.length),
    each(({ heapBytes }) => heapBytes),
    each(({ externalBytes }) => externalBytes),
    String(readLoad()),
  ]
}

function parseCount(text: string): number {
  if (!/^[1-9]\d{0,4}$/.test(text)) throw new InvalidArgumentError('not a number from 1 to 99999')
  return Number(text)
}
