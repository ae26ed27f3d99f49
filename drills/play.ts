import { setTimeout as sleep } from 'node:timers/promises'
import { guarded } from '../gateway/base/fault/guarded.ts'
import { withOwner } from '../test/support/owner.ts'
import type { Drill, Finding } from './drill.ts'
import { openDrillFixture, readHoldings } from './fixture.ts'
import { type Flows, prepareFlows } from './flows.ts'
import { type FlowFigures, type Holdings, judge, type Played, type Rigor, summarize } from './judge.ts'
import { startLoad } from './load.ts'

export type PlayOptions = Rigor &
  Readonly<{
    /** The length of the fault. */
    seconds: number
    /** Requests in a second, of all flows together. */
    rate: number
    notify: (sentence: string) => void
  }>

export type Result = Readonly<{ figures: readonly FlowFigures[]; findings: readonly Finding[] }>

/** Time for the caches to fill, and for V8 to compile the code. */
const warmUpMs = 3_000

const memoryEveryMs = 250

/** Starts a fixture, breaks it for a while under load, and returns figures and findings. Memory is what the system reports. */
export const play = (drill: Drill, options: PlayOptions): Promise<Result> =>
  withOwner(async (owner) => {
    const { seconds, rate, notify } = options
    const goodAfterMs = drill.goodAfterMs ?? 2_000
    const fixture = await openDrillFixture(owner, drill, notify)
    // Accounts for first logins: about one in a hundred requests, and at least a few in each phase.
    const allSeconds = 3 * seconds + (warmUpMs + goodAfterMs * options.patience) / 1_000
    const usual = await prepareFlows(owner, fixture.world, Math.ceil((allSeconds * rate) / 100) + 10)
    const flows: Flows = drill.adapt?.(usual) ?? usual
    const load = startLoad(owner, fixture.gateway().public, flows, rate)
    await sleep(warmUpMs)
    const startedMs = performance.now()
    await sleep(seconds * 1_000)
    const readAll = (): Holdings => ({ ...readHoldings(fixture), connections: load.connections() })
    const before = readAll()
    let highest = before
    const look = (): void => {
      const now = readAll()
      if (now.rssBytes > highest.rssBytes) highest = now
    }
    const timer = setInterval(guarded('process', look), memoryEveryMs)
    owner.teardown(() => clearInterval(timer))
    const beganMs = performance.now()
    await drill.begin(fixture)
    await sleep(seconds * 1_000)
    const during = (await drill.lookDuring?.(fixture)) ?? []
    await drill.end(fixture)
    const endedMs = performance.now()
    await sleep(goodAfterMs * options.patience + seconds * 500)
    await load.stop()
    clearInterval(timer)
    const played: Played = {
      samples: load.samples(),
      startedMs,
      beganMs,
      endedMs,
      reached: fixture.upstream.reached(),
      holdings: { before, highest, after: readAll() },
    }
    const after = (await drill.lookAfter?.(fixture)) ?? []
    return {
      figures: summarize(flows, played),
      findings: [...judge(drill, flows, played, options), ...during, ...after],
    }
  })
