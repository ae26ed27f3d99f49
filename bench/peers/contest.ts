import { type Owner, withOwner } from '../../test/support/owner.ts'
import { findPercentile } from '../statistics.ts'
import { readCpuMicros } from './cpu-time.ts'
import { type Asked, drive, type Latency, pace } from './load.ts'

/** A way to the backend: what is asked of it, and whose work that is. */
export type Entry = Readonly<{ asked: Asked; pids: readonly number[] }>

/** One row of the table. */
export type Contestant = Readonly<{ name: string; entry: Entry }>

/** The competitors. */
export type LineUp = Readonly<{
  /** Through all rounds. */
  standing: readonly Contestant[]
  /**
   * Starts those that begin anew every few rounds. V8 compiles the same code differently in each process, by up to a
   * twelfth, so a single one says little about small differences.
   */
  start: (owner: Owner) => Promise<readonly Contestant[]>
}>

/** As `bench.json` has it. */
export type Row = Readonly<{
  name: string
  cpuMicrosPerRequest: number
  requestsPerCore: number
  /** Beyond what the backend takes by itself; absent without fortio. */
  p50Micros?: number
  p99Micros?: number
  /** Half of the rounds lie between them. */
  cpuMicrosQuartiles: readonly number[]
}>

export type ContestOptions = Readonly<{
  rounds: number
  seconds: number
  connections: number
  /** Requests in a second for latency; 0 measures none. */
  rate: number
  /** The backend itself. */
  direct: Asked
  notify: (sentence: string) => void
}>

/** Seconds of load on each way before the measurement. */
const warmUpSeconds = 3

/** The same for those that begin anew: until V8 has compiled what is hot, and collected what the start left, they are dearer. */
const freshWarmUpSeconds = 8

/** The gateway's processes serve so many rounds. */
const roundsOfLife = 4

/** Fewer than the throughput's: a wait for a free connection would be the loader's own. */
const pacedConnections = 32

/** Long enough for a percentile; more rounds say more than longer ones. */
const pacedSeconds = 1

type Measured = Readonly<{ cpuMicros: number[]; latencies: Latency[] }>

/** Measures all in turn, and every other round in the opposite order: what else the machine does hits all alike. */
export async function compete(owner: Owner, lineUp: LineUp, options: ContestOptions): Promise<readonly Row[]> {
  const { rounds, seconds, connections, rate, direct, notify } = options
  const measured = new Map<string, Measured>()
  const directly: Latency[] = []
  const warmUp = async ({ name, entry }: Contestant, forSeconds: number): Promise<void> =>
    requireSuccess(name, await drive(owner, entry.asked, connections, forSeconds))
  const measure = async ({ name, entry: { asked, pids } }: Contestant): Promise<void> => {
    const { cpuMicros, latencies } = measured.get(name) ?? { cpuMicros: [], latencies: [] }
    measured.set(name, { cpuMicros, latencies })
    const before = readCpuMicros(pids)
    const { requests, failed } = await drive(owner, asked, connections, seconds)
    cpuMicros.push((readCpuMicros(pids) - before) / requests)
    requireSuccess(name, { requests, failed })
    if (rate > 0) latencies.push(await pace(asked, pacedConnections, rate, pacedSeconds))
  }
  const play = async (first: number, contestants: readonly Contestant[]): Promise<void> => {
    for (let round = first; round < Math.min(first + roundsOfLife, rounds); round += 1) {
      notify(`round ${round + 1} of ${rounds}`)
      if (rate > 0) directly.push(await pace(direct, pacedConnections, rate, pacedSeconds))
      for (const contestant of round % 2 === 0 ? contestants : contestants.toReversed()) await measure(contestant)
    }
  }
  for (const contestant of lineUp.standing) await warmUp(contestant, warmUpSeconds)
  for (let first = 0; first < rounds; first += roundsOfLife)
    await withOwner(async (ofThese) => {
      const started = await lineUp.start(ofThese)
      for (const contestant of started) await warmUp(contestant, freshWarmUpSeconds)
      await play(first, [...lineUp.standing, ...started])
    })
  const base = summarise(directly)
  return [...measured].map(([name, { cpuMicros, latencies }]) => {
    const { p50Micros, p99Micros } = summarise(latencies)
    const cpuMicrosPerRequest = roundTenth(findPercentile(cpuMicros, 0.5))
    return {
      name,
      cpuMicrosPerRequest,
      requestsPerCore: Math.round(1_000_000 / cpuMicrosPerRequest),
      ...(rate > 0 && {
        p50Micros: roundTenth(p50Micros - base.p50Micros),
        p99Micros: roundTenth(p99Micros - base.p99Micros),
      }),
      cpuMicrosQuartiles: [0.25, 0.75].map((share) => roundTenth(findPercentile(cpuMicros, share))),
    }
  })
}

/** A way that refuses is fast, and measures nothing. */
function requireSuccess(name: string, { requests, failed }: Readonly<{ requests: number; failed: number }>): void {
  if (requests === 0) throw new Error(`${name} answered nothing`)
  if (failed > requests / 1_000) throw new Error(`${name} failed ${failed} of ${requests} requests`)
}

/** Medians over the rounds. */
const summarise = (latencies: readonly Latency[]) => ({
  p50Micros: findPercentile(
    latencies.map(({ p50Micros }) => p50Micros),
    0.5,
  ),
  p99Micros: findPercentile(
    latencies.map(({ p99Micros }) => p99Micros),
    0.5,
  ),
})

const roundTenth = (value: number): number => Math.round(value * 10) / 10
