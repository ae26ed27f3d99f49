import { describeBug, type Log } from '../../observe/log/log.ts'
import { redact } from '../../observe/log/redact.ts'
import type { PolicyMetrics } from '../../observe/metrics/policy.ts'
import type { DifferenceKind, Facts, Verdict } from './compare.ts'

/** One request that the two tables differ about; `failed` where the other one could not be asked. */
export type Difference = Readonly<{ live: Verdict; facts: Facts; requestId: string }> &
  (Readonly<{ kind: DifferenceKind; shadow: Verdict }> | Readonly<{ kind: 'failed'; error: unknown }>)

export type ReportDifference = (difference: Difference) => void

type Surroundings = Readonly<{
  log: Log
  metrics: Pick<PolicyMetrics, 'countShadowDifference'>
  monotonicMs: () => number
}>

/** One line for a route and kind in so long: the counter has them all. */
const sampleMs = 10_000

/** A longer line may be torn where others write to the same pipe; no honest path is so long. */
const pathLimit = 1_024

/** Counts every difference, and writes down one of each sort now and then. */
export function createReport({ log, metrics, monotonicMs }: Surroundings): ReportDifference {
  // Route ids are of our table, and kinds are six: neither grows with what clients send.
  const toldAtMs = new Map<string, number>()
  return (difference) => {
    const { kind, live } = difference
    const route = live.route ?? 'none'
    metrics.countShadowDifference(route, kind)
    const nowMs = monotonicMs()
    const sort = JSON.stringify([route, kind])
    if (nowMs - (toldAtMs.get(sort) ?? Number.NEGATIVE_INFINITY) < sampleMs) return
    toldAtMs.set(sort, nowMs)
    if (difference.kind === 'failed')
      log.error({ ...compose(difference), error: describeBug(difference.error) }, 'the shadow table could not be asked')
    else {
      const { route: shadowRoute, outcome } = difference.shadow
      log.info({ ...compose(difference), shadowRoute, shadow: outcome }, 'the shadow table differs')
    }
  }
}

function compose({ kind, live, facts, requestId }: Difference) {
  const { target, principal } = facts
  return {
    requestId,
    kind,
    method: target.method,
    path: redact(target.path).slice(0, pathLimit),
    userId: principal?.user.id,
    credential: principal?.credential.kind,
    route: live.route,
    live: live.outcome,
  }
}
