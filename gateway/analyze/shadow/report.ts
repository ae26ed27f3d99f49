import { nameUser } from '../../directory/directory.ts'
import { describeBug, type Log } from '../../observe/log/log.ts'
import { redact } from '../../observe/log/redact.ts'
import type { PolicyMetrics } from '../../observe/metrics/policy.ts'
import type { DifferenceKind, Facts, Verdict } from './compare.ts'

export type Difference = Readonly<{ live: Verdict; facts: Facts; requestId: string }> &
  (Readonly<{ kind: DifferenceKind; shadow: Verdict }> | Readonly<{ kind: 'failed'; error: unknown }>)

export type ReportDifference = (difference: Difference) => void

type Surroundings = Readonly<{
  log: Log
  metrics: Pick<PolicyMetrics, 'countShadowDifference'>
  monotonicMs: () => number
}>

/** One line for a route and kind in this time; the counter has all of them. */
const sampleMs = 10_000

/** A longer line may be torn if other processes write to the same pipe. */
const pathLimit = 1_024

export function createReport({ log, metrics, monotonicMs }: Surroundings): ReportDifference {
  // Route ids come from the policy and there are six kinds, so clients cannot make it grow.
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
      log.error({ ...compose(difference), error: describeBug(difference.error) }, 'shadow policy failed')
    else {
      const { route: shadowRoute, outcome, upstreamPath } = difference.shadow
      const { path } = difference.facts.target
      const paths =
        kind === 'other_path'
          ? { upstreamPath: cut(live.upstreamPath ?? path), shadowPath: cut(upstreamPath ?? path) }
          : {}
      log.info({ ...compose(difference), shadowRoute, shadow: outcome, ...paths }, 'shadow policy differs')
    }
  }
}

const cut = (path: string): string => redact(path).slice(0, pathLimit)

function compose({ kind, live, facts, requestId }: Difference) {
  const { target, principal } = facts
  return {
    requestId,
    kind,
    method: target.method,
    path: cut(target.path),
    userId: principal && nameUser(principal.user),
    credential: principal?.credential.kind,
    route: live.route,
    live: live.outcome,
  }
}
