import { type Owner, withOwner } from '../../support/owner.ts'
import { findPercentile } from '../statistics.ts'
import { readCpuMicros } from './cpu-time.ts'
import { type Asked, drive, type Latency, pace } from './load.ts'

/** A way to the backend: what is asked of it, and whose work that is. */
export type Entry = Readonly<{ asked: Asked; pids: readonly number[] }>

/**
 * One row of the table. Most ways stand through all rounds. One with `remake` starts anew in each of them: what V8 makes
 * of the same code differs from one process to another by a twentieth, so a single one says little about smaller differences.
 */
export type Contestant = Readonly<{ name: string }> &
  (Readonly<{ standing: Entry }> | Readonly<{ remake: (owner: Owner) => Promise<Entry> }>)

/** As `bench.json` has it. */
export type Row = Readonly<{
  name: string
  cpuMicrosPerRequest: number
  requestsPerCore: number
  /** Beyond what the backend takes by itself; absent without fortio. */
  p50Micros?: number
  p99Micros?: number
}>

export type ContestOptions = Readonly<{
  rounds: number
  seconds: number
  connections: number
  /** Requests in a second, for latency; 0: none is measured. */
  rate: number
  /** The backend itself. */
  direct: Asked
  notify: (sentence: string) => void
}>

/** Of load, before anything is measured. */
const warmUpSeconds = 3

/** Fewer than the throughput's: a wait for a free connection would be the loader's own. */
const pacedConnections = 32

type Measured = Readonly<{ cpuMicros: number[]; latencies: Latency[] }>

/** Measures all in turn, and every other round in the opposite order: what else the machine does hits all alike. */
export async function compete(
  owner: Owner,
  contestants: readonly Contestant[],
  options: ContestOptions,
): Promise<readonly Row[]> {
  const { rounds, seconds, connections, rate, direct, notify } = options
  const measured = new Map<Contestant, Measured>(
    contestants.map((contestant) => [contestant, { cpuMicros: [], latencies: [] }]),
  )
  const directly: Latency[] = []
  const warmUp = async (name: string, { asked }: Entry): Promise<void> =>
    requireSuccess(name, await drive(owner, asked, connections, warmUpSeconds))
  const measure = async (name: string, { asked, pids }: Entry, { cpuMicros, latencies }: Measured): Promise<void> => {
    const before = readCpuMicros(pids)
    const { requests, failed } = await drive(owner, asked, connections, seconds)
    cpuMicros.push((readCpuMicros(pids) - before) / requests)
    requireSuccess(name, { requests, failed })
    if (rate > 0) latencies.push(await pace(asked, pacedConnections, rate, seconds))
  }
  for (const contestant of contestants) if ('standing' in contestant) await warmUp(contestant.name, contestant.standing)
  for (let round = 0; round < rounds; round += 1) {
    notify(`round ${round + 1} of ${rounds}`)
    if (rate > 0) directly.push(await pace(direct, pacedConnections, rate, seconds))
    for (const contestant of round % 2 === 0 ? contestants : contestants.toReversed()) {
      const { name } = contestant
      const figures = measured.get(contestant) ?? { cpuMicros: [], latencies: [] }
      if ('standing' in contestant) await measure(name, contestant.standing, figures)
      else
        await withOwner(async (ofRound) => {
          const entry = await contestant.remake(ofRound)
          await warmUp(name, entry)
          await measure(name, entry, figures)
        })
    }
  }
  const base = summarise(directly)
  return contestants.map((contestant) => {
    const { cpuMicros, latencies } = measured.get(contestant) ?? { cpuMicros: [], latencies: [] }
    const { p50Micros, p99Micros } = summarise(latencies)
    const cpuMicrosPerRequest = round(findPercentile(cpuMicros, 0.5))
    return {
      name: contestant.name,
      cpuMicrosPerRequest,
      requestsPerCore: Math.round(1_000_000 / cpuMicrosPerRequest),
      ...(rate > 0 && {
        p50Micros: round(p50Micros - base.p50Micros),
        p99Micros: round(p99Micros - base.p99Micros),
      }),
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

const round = (value: number): number => Math.round(value * 10) / 10
