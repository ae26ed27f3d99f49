// The memory of a gateway whose standard output is not read: `npm run bench:log-unread -- --help`.
import { closeSync } from 'node:fs'
import { Command, InvalidArgumentError } from 'commander'
import { type Owner, withOwner } from '../test/support/owner.ts'
import { findMeasureLack, measurable, readLoad, readSettledFigures } from '../test/support/process-figures.ts'
import { type Replica, startReplica } from '../test/support/replicas.ts'
import { openPipe } from './open-pipe.ts'
import { findLack } from './peers/find-program.ts'
import { drive } from './peers/load.ts'
import { startBenchWorld } from './start-bench.ts'

type Options = Readonly<{ requests: number; seconds: number; json?: boolean }>

const { requests, seconds, json } = new Command('bench:log-unread')
  .description('Send anonymous requests to a gateway whose log and audit go to a pipe that no program reads.')
  .option('--requests <n>', 'number of requests', parseCount, 1_000_000)
  .option('--seconds <n>', 'seconds of each round of requests', parseCount, 2)
  .option('--json', 'print the figures as one line of JSON')
  .addHelpText(
    'after',
    '\nExits 1 where a request is not answered with 401, memory grows by more than 32 MiB after the',
  )
  .addHelpText(
    'after',
    'first 50,000 requests (or a twentieth of them, where that is less), no line is dropped, or SIGTERM',
  )
  .addHelpText('after', 'does not end the gateway within its drain.')
  .addHelpText('after', '\nExample:\n  $ npm run --silent bench:log-unread -- --requests 200000')
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

const connections = 64

/** After so many the code is compiled, and the pipe and the gateway's own buffers are full. */
const warmUp = Math.min(50_000, Math.ceil(requests / 20))

const growthBytes = 32 * 1024 * 1024

const drain = { delayMs: 0, timeoutMs: 5_000 }

type Figures = Readonly<{
  served: number
  /** Not answered with 401. */
  failed: number
  dropped: number
  beforeBytes: number
  afterBytes: number
  exitCode: number
  endedMs: number
}>

try {
  const lack = findMeasureLack() ?? findLack('wrk', 'Debian: apt-get install wrk') ?? findLack('taskset', 'util-linux')
  if (lack !== undefined) throw new Error(lack)
  const figures = await withOwner(measure)
  console.log(json ? JSON.stringify({ ...figures, load: readLoad() }) : render(figures))
  process.exitCode = isKept(figures) ? 0 : 1
} catch (error) {
  console.error(`bench:log-unread: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}

async function measure(owner: Owner): Promise<Figures> {
  console.error('starting a database and a gateway')
  const world = await startBenchWorld(owner)
  const { reading, writing } = openPipe(owner)
  // The reading end stays open: without one a write would fail at once, which is another fault.
  owner.teardown(() => closeSync(reading))
  const settings = { audit: { sink: 'stdout' }, drain }
  const replica = await startReplica(owner, { world, settings }, measurable, writing)
  closeSync(writing)
  let [served, failed] = [0, 0]
  const serve = async (count: number): Promise<void> => {
    while (served < count) {
      const round = await drive(owner, { url: `${replica.public}/datasets`, headers: [{}] }, connections, seconds)
      if (round.requests === 0) throw new Error('nothing was answered')
      served += round.requests
      failed += round.requests - round.refused
      console.error(`${served} of ${requests} requests`)
    }
  }
  await serve(warmUp)
  const { rssBytes: beforeBytes } = await readSettledFigures(replica)
  await serve(requests)
  const { rssBytes: afterBytes } = await readSettledFigures(replica)
  const dropped = await countDropped(replica)
  const startedMs = performance.now()
  const exitCode = await replica.stop('SIGTERM')
  return { served, failed, dropped, beforeBytes, afterBytes, exitCode, endedMs: performance.now() - startedMs }
}

async function countDropped({ admin }: Replica): Promise<number> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  return Number(/^sallyport_log_lines_dropped_total (\S+)$/m.exec(text)?.[1])
}

function isKept({ failed, dropped, beforeBytes, afterBytes, exitCode, endedMs }: Figures): boolean {
  const endsInTime = exitCode === 0 && endedMs <= drain.delayMs + drain.timeoutMs
  return failed === 0 && dropped > 0 && afterBytes - beforeBytes <= growthBytes && endsInTime
}

function render({ served, failed, dropped, beforeBytes, afterBytes, exitCode, endedMs }: Figures): string {
  const mebibytes = (bytes: number): string => `${(bytes / 1024 / 1024).toFixed(1)} MiB`
  return `RSS after the first ${warmUp} requests: ${mebibytes(beforeBytes)}; after ${served}: ${mebibytes(afterBytes)}
grown by ${mebibytes(afterBytes - beforeBytes)}, and at most ${mebibytes(growthBytes)} are allowed
not answered with 401: ${failed}; log lines dropped: ${dropped}
SIGTERM: exit code ${exitCode} after ${endedMs.toFixed(0)} ms; load ${readLoad()}`
}

function parseCount(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('not a number from 1 to 999999999')
  return Number(text)
}
