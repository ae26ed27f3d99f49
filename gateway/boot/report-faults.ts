import { type HearFault, hearFaults } from '../fault/guarded.ts'
import { describeBug, type Log } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'

/** The same fault again within this time is counted, and not logged. */
const silenceMs = 60_000

/** Faults that are remembered; beyond, the oldest is told again. */
const rememberedFaults = 100

/** Counts what callbacks throw, and logs each cause once a minute: a bug that a peer can reach must not fill the log. */
export function reportFaults(
  log: Pick<Log, 'error'>,
  metrics: Pick<Metrics, 'countFault'>,
  monotonicMs = () => performance.now(),
): () => void {
  const toldAtMs = new Map<string, number>()
  const hear: HearFault = (place, error) => {
    metrics.countFault(place)
    const cause = `${place} ${nameCause(error)}`
    const nowMs = monotonicMs()
    const lastMs = toldAtMs.get(cause)
    if (lastMs !== undefined && nowMs - lastMs < silenceMs) return
    toldAtMs.delete(cause)
    toldAtMs.set(cause, nowMs)
    const [oldest] = toldAtMs.keys()
    if (toldAtMs.size > rememberedFaults && oldest !== undefined) toldAtMs.delete(oldest)
    log.error({ place, error: describeBug(error) }, 'a callback failed: what it worked for has been ended')
  }
  return hearFaults(hear)
}

/** By its place in the code: a message may hold what a peer said, and so be another each time. */
const nameCause = (error: unknown): string =>
  error instanceof Error ? `${error.name} ${error.stack?.split('\n').find((line) => /^\s+at /.test(line)) ?? ''}` : ''
