// The cost of open event streams, and the delay of their events: `npm run bench:streams -- --help`.
import type { Socket } from 'node:net'
import { Command, InvalidArgumentError } from 'commander'
import { type CrowdClient, leave, openCrowd } from '../test/support/crowd.ts'
import { type CrowdUpstream, startCrowdUpstream } from '../test/support/crowd-upstream.ts'
import { until } from '../test/support/gateway.ts'
import { type Owner, withOwner } from '../test/support/owner.ts'
import {
  findMeasureLack,
  measurable,
  type ProcessFigures,
  readLoad,
  readSettledFigures,
  readSystemFigures,
} from '../test/support/process-figures.ts'
import { startReplica } from '../test/support/replicas.ts'
import { bearer } from '../test/support/world.ts'
import { createStopwatch, divideCost, type Spray, type StreamFigures } from './measure-streams.ts'
import { readCpuMicros } from './peers/cpu-time.ts'
import { keepAwake } from './peers/keep-awake.ts'
import { findNginxLack, startNginxStreams } from './peers/nginx.ts'
import { startBenchWorld } from './start-bench.ts'
import { findPercentile, renderTable } from './statistics.ts'

type Options = Readonly<{ streams: readonly number[]; events: number; json?: boolean }>

const { streams, events, json } = new Command('bench:streams')
  .description(
    'Measure the cost of idle event streams and the delay of an event, in the gateway and in an installed nginx.',
  )
  .option('--streams <n,…>', 'numbers of open streams, in ascending order', parseSizes, [1_000, 5_000])
  .option('--events <n>', 'events of each size, one every 4 ms', parseCount, 2_000)
  .option('--json', 'print one line of JSON for each size instead of the table')
  .addHelpText('after', '\nExits 1 where a stream costs more than 20 KiB, or the 99th percentile is above 5 ms.')
  .addHelpText('after', '\nExample:\n  $ npm run --silent bench:streams -- --streams 100,1000 --json')
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

/**
 * Events a second while the processor's time is read, all streams together. The same number at any size keeps the idle
 * share of a process equal. It is read several times, and the median counts. A while after many were opened, V8 scans
 * its whole memory for a part to give back.
 */
const eventsPerSecond = 5_000
const spraySeconds = 1
const sprays = 9

/** Seconds of load at twice that rate, after which hot code is compiled. */
const warmUpSeconds = 4

/** The number of streams that are opened while the others are open. */
const newcomers = 100

const interruption = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => interruption.abort(new Error(`ended by ${signal}`)))

try {
  const lack = findMeasureLack(2 * Math.max(...streams))
  if (lack !== undefined) throw new Error(lack)
  const figures = await withOwner(measure)
  if (!json) console.log(renderFigures(figures))
  process.exitCode = figures.every(isKept) ? 0 : 1
} catch (error) {
  // After an interruption, every failure follows from it.
  const cause: unknown = interruption.signal.reason ?? error
  console.error(`bench:streams: ${cause instanceof Error ? cause.message : String(cause)}`)
  process.exitCode = 1
}

/** One way to the streams, and what is read of its processes. */
type Way = Readonly<{ name: string; origin: string; pid: number; readFigures: () => Promise<ProcessFigures> }>

async function measure(owner: Owner): Promise<readonly StreamFigures[]> {
  console.error(keepAwake(owner))
  console.error('starting a database and a gateway')
  const world = await startBenchWorld(owner)
  const upstream = await startCrowdUpstream(owner)
  const settings = { log: { level: 'warn' } }
  const upstreams = { agents: { url: upstream.url } }
  const replica = await startReplica(owner, { world, settings, upstreams }, measurable)
  const readOurs = () => readSettledFigures(replica)
  const ours = { name: 'sallyport', origin: replica.public, pid: replica.pid, readFigures: readOurs }
  const request = {
    path: `/agent/${world.agents.acme}/responses`,
    headers: bearer(world.serviceAccounts.robot.apiKey),
  }
  const figures = [...(await measureWay(ours, upstream, request))]
  const lack = findNginxLack()
  if (lack !== undefined) console.error(`left out: nginx: ${lack}`)
  else {
    const { port, pid } = await startNginxStreams(owner, Number(new URL(upstream.url).port))
    const readFigures = async () => readSystemFigures(pid)
    const way = { name: 'nginx', origin: `http://127.0.0.1:${port}`, pid, readFigures }
    figures.push(...(await measureWay(way, upstream, request)))
  }
  return figures
}

/** Streams of the smaller sizes stay open when the rest of a larger one is added; at the end all are closed. */
async function measureWay(
  way: Way,
  upstream: CrowdUpstream,
  request: Readonly<{ path: string; headers: Readonly<Record<string, string>> }>,
): Promise<readonly StreamFigures[]> {
  const all = await withOwner(async (owner) => {
    const stopwatch = createStopwatch(() => performance.now())
    const open = (count: number) => openCrowd(owner, { origin: way.origin, ...request, count, hear: stopwatch.hear })
    // The first streams are not measured, because they pay for code and memory that all later ones share.
    leave(await open(200))
    await until(() => upstream.streams.size === 0, 'the end of the first streams')
    const before = await way.readFigures()
    const all: StreamFigures[] = []
    for (const size of streams) {
      console.error(`opening ${size} streams by ${way.name}`)
      interruption.signal.throwIfAborted()
      await open(size - upstream.streams.size)
      const cost = divideCost(before, await way.readFigures(), size)
      // Neither the compilation of the serving code nor the garbage of opening the streams counts.
      await stopwatch.spray([...upstream.streams], warmUpSeconds, 2 * eventsPerSecond, interruption.signal)
      const times = await stopwatch.run([...upstream.streams], events, interruption.signal)
      const cpuMicrosPerEvent = await readEventCost(way, [...upstream.streams], stopwatch.spray)
      const firstEventMs = await timeFirstEvents(() => open(1), newcomers)
      await until(() => upstream.streams.size === size, 'the end of the newcomers')
      const figures = { way: way.name, streams: size, ...cost, cpuMicrosPerEvent, firstEventMs, ...times }
      console.error(`the machine's load was ${readLoad()}`)
      if (json) console.log(JSON.stringify(figures))
      all.push(figures)
    }
    return all
  })
  await until(() => upstream.streams.size === 0, 'the end of the streams')
  return all
}

/** Microseconds of the processor for an event. */
async function readEventCost(way: Way, open: readonly Socket[], spray: Spray): Promise<number> {
  const costs: number[] = []
  while (costs.length < sprays) {
    const before = readCpuMicros([way.pid])
    const events = await spray(open, spraySeconds, eventsPerSecond, interruption.signal)
    costs.push((readCpuMicros([way.pid]) - before) / events)
  }
  return Math.round(findPercentile(costs, 0.5) * 10) / 10
}

async function timeFirstEvents(open: () => Promise<readonly CrowdClient[]>, count: number): Promise<number> {
  const times: number[] = []
  for (let index = 0; index < count; index++) {
    const startedMs = performance.now()
    const clients = await open()
    times.push(performance.now() - startedMs)
    leave(clients)
  }
  return Math.round(findPercentile(times, 0.5) * 100) / 100
}

/** The promise; nginx promises nothing here. */
function isKept({ way, heldBytes, p99Ms }: StreamFigures): boolean {
  return way === 'nginx' || (heldBytes <= 20 * 1024 && p99Ms <= 5)
}

function renderFigures(all: readonly StreamFigures[]): string {
  const head = ['way', 'streams', 'held bytes', 'of them heap', 'external', 'RSS bytes', 'CPU µs/event']
  const rows = all.map((figures) => {
    const { way, streams, heldBytes, heapBytes, externalBytes, rssBytes, cpuMicrosPerEvent } = figures
    const { firstEventMs, medianMs, p99Ms, maxMs } = figures
    const cost = [way, streams, heldBytes, heapBytes, externalBytes, rssBytes, cpuMicrosPerEvent]
    return [...cost, firstEventMs, medianMs, p99Ms, maxMs].map(String)
  })
  return renderTable([[...head, 'first event ms', 'median ms', 'p99 ms', 'max ms'], ...rows])
}

function parseCount(text: string): number {
  if (!/^[1-9]\d{0,4}$/.test(text)) throw new InvalidArgumentError('not a number from 1 to 99999')
  return Number(text)
}

function parseSizes(text: string): readonly number[] {
  const sizes = text.split(',').map(parseCount)
  if (sizes.some((size, index) => size <= (sizes[index - 1] ?? 0)))
    throw new InvalidArgumentError('not in ascending order')
  return sizes
}
