// The time of a start, and the memory after a million requests: `npm run bench:endurance -- --help`.
import { Command, InvalidArgumentError } from 'commander'
import { type Owner, withOwner } from '../test/support/owner.ts'
import { measurable, type ProcessFigures, readSettledFigures } from '../test/support/process-figures.ts'
import { startReplica } from '../test/support/replicas.ts'
import { bearer } from '../test/support/world.ts'
import { findLack } from './peers/find-program.ts'
import { drive } from './peers/load.ts'
import { startBackend } from './peers/nginx.ts'
import { startBenchWorld } from './start-bench.ts'
import { renderTable } from './statistics.ts'

type Options = Readonly<{ requests: number; seconds: number }>

const { requests, seconds } = new Command('bench:endurance')
  .description('Measure the time of a start, and the memory before and after many requests.')
  .option('--requests <n>', 'number of requests, after a tenth as many to warm up', parseCount, 1_000_000)
  .option('--seconds <n>', 'seconds of each round of requests', parseCount, 10)
  .addHelpText('after', '\nExits 1 where a request fails, or more than a tenth of the memory was added.')
  .addHelpText('after', '\nExample:\n  $ npm run --silent bench:endurance -- --requests 20000 --seconds 1')
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

const connections = 64

/** `rssBytes` includes garbage and the reserve of V8, as far as these were not given back. */
type Figures = Readonly<{
  startMs: number
  served: number
  failed: number
  before: ProcessFigures
  after: ProcessFigures
}>

try {
  const lack = ['wrk', 'nginx'].map((program) => findLack(program, `Debian: apt-get install ${program}`)).find(Boolean)
  if (lack !== undefined) throw new Error(lack)
  const figures = await withOwner(measure)
  console.log(render(figures))
  process.exitCode = figures.failed === 0 && figures.after.rssBytes <= 1.1 * figures.before.rssBytes ? 0 : 1
} catch (error) {
  console.error(`bench:endurance: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}

async function measure(owner: Owner): Promise<Figures> {
  console.error('starting a database and a gateway')
  const world = await startBenchWorld(owner)
  const upstreams = { platform: { url: `http://127.0.0.1:${await startBackend(owner)}` } }
  const startedMs = performance.now()
  const replica = await startReplica(owner, { world, upstreams }, measurable)
  const startMs = performance.now() - startedMs
  const asked = { url: `${replica.public}/datasets`, headers: [bearer(world.serviceAccounts.robot.apiKey)] }
  let failed = 0
  const serve = async (count: number): Promise<number> => {
    let served = 0
    while (served < count) {
      const round = await drive(owner, asked, connections, seconds)
      if (round.requests === 0) throw new Error('nothing was answered')
      served += round.requests
      failed += round.failed
      console.error(`${served} of ${count} requests`)
    }
    return served
  }
  await serve(requests / 10)
  const before = await readSettledFigures(replica)
  const served = await serve(requests)
  return { startMs, served, failed, before, after: await readSettledFigures(replica) }
}

function render({ startMs, served, failed, before, after }: Figures): string {
  const mebibytes = (bytes: number): string => (bytes / 1024 / 1024).toFixed(1)
  const row = (name: string, { rssBytes, heapBytes, externalBytes, descriptors }: ProcessFigures) => [
    name,
    ...[rssBytes, heapBytes, externalBytes].map(mebibytes),
    String(descriptors),
  ]
  const table = renderTable([
    ['', 'RSS MiB', 'V8 heap MiB', 'buffers MiB', 'descriptors'],
    row('warmed up', before),
    row(`after ${served} requests`, after),
  ])
  return `${table}\nfrom its start to its first request: ${startMs.toFixed(0)} ms; failed requests: ${failed}`
}

function parseCount(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('not a number from 1 to 999999999')
  return Number(text)
}
