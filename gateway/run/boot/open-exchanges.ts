import type { Configuration } from '../../configuration/configuration.ts'
import type { Change } from '../../directory/change.ts'
import { followRows, type RowFollower } from '../../directory/follow-rows.ts'
import type { Audit } from '../../observe/audit/audit.ts'
import type { AuditedEnd } from '../../observe/audit/line.ts'
import { describeError } from '../../observe/log/log.ts'
import type { Snapshot } from '../../pipeline.ts'
import type { HeardLog } from '../../rights/heard.ts'
import type { AccessEnd, OpenExchange } from '../../stages/recheck/open-exchange.ts'
import { OpenExchanges, type Recheck } from '../../stages/recheck/recheck.ts'
import type { DecisionPoints } from './decision-points.ts'
import type { OpenDirectory } from './directory.ts'
import type { OpenLogouts } from './logouts.ts'
import type { ProcessContext } from './process-context.ts'

export type WatchedExchanges = Readonly<{ recheck: Recheck; hear: (change: Change) => void; stop: () => void }>

type WatchDependencies = Pick<ProcessContext, 'log' | 'metrics'> &
  Readonly<{
    audit: Audit
    logouts: Pick<OpenLogouts, 'hasEnded' | 'unreadSinceMs' | 'onEnded'>
    decisionPoints: Pick<DecisionPoints, 'askAgain' | 'recheckMsOf' | 'shareOf'>
    heard: HeardLog
    now: () => Date
    monotonicMs: () => number
  }>

export function watchExchanges(
  { streams }: Configuration,
  opened: Pick<OpenDirectory, 'rights' | 'stores'>,
  policy: () => Snapshot,
  dependencies: WatchDependencies,
): WatchedExchanges {
  const { log, metrics, audit, logouts, decisionPoints, heard, now, monotonicMs } = dependencies
  const { readFacts, knownAt } = opened.rights
  const recheck = new OpenExchanges({
    ...streams,
    readFacts,
    knownAt,
    policy,
    hasEnded: logouts.hasEnded,
    logoutsUnreadSinceMs: logouts.unreadSinceMs,
    consultAgain: decisionPoints.askAgain,
    recheckMsOf: decisionPoints.recheckMsOf,
    shareOf: decisionPoints.shareOf,
    heard,
    now,
    monotonicMs,
    processId: process.pid,
    onEnded: (end, open) => {
      metrics.countAccessEnd(end.code, end.refusal.exactCause)
      if (audit.isOn) audit.recordEnd(describeEnd(end, open, now(), monotonicMs()))
    },
    onRound: metrics.countConfirmation,
    onUnread: (error) => log.debug({ error: describeError(error) }, 'rights of open exchanges not read'),
  })
  const orders = followSessionEnds(recheck, opened, dependencies)
  logouts.onEnded(recheck.endLogins)
  const hear = (change: Change): void => {
    recheck.hear(change)
    // After `everything` an order may have been missed too.
    if (change.kind === 'session-end' || change.kind === 'everything') orders.look()
  }
  const stop = (): void => {
    recheck.stop()
    orders.stop()
  }
  return { recheck, hear, stop }
}

function followSessionEnds(
  recheck: Recheck,
  { stores, rights }: Pick<OpenDirectory, 'rights' | 'stores'>,
  { log, monotonicMs }: WatchDependencies,
): RowFollower {
  let obeyed: ReadonlySet<number> = new Set()
  return followRows({
    knownAt: rights.knownAt,
    monotonicMs,
    isNeeded: () => recheck.count > 0,
    read: async () => {
      const recent = await stores.sessionEnds.readRecent()
      const fresh = recent.filter(({ id }) => !obeyed.has(id))
      obeyed = new Set(recent.map(({ id }) => id))
      for (const { id } of fresh) log.info({ sessionEndId: id }, 'end of sessions ordered')
      recheck.endSessions(fresh, monotonicMs())
    },
    onFailed: (error) => log.debug({ error: describeError(error) }, 'orders to end sessions not read'),
  })
}

function describeEnd(end: AccessEnd, open: OpenExchange, at: Date, nowMs: number): AuditedEnd {
  const { exchange, proof, userId, organizationId, openedAtMs } = open
  const { requestId, clientAddress, path, route } = open.describeOpening()
  const { received, sent } = exchange.passedBytes
  return {
    time: at,
    openedAt: new Date(at.getTime() - Math.max(0, nowMs - openedAtMs)),
    ...{ requestId, clientAddress, path, route, userId, organizationId, method: exchange.method },
    reason: end.code,
    cause: end.refusal.exactCause,
    sessionEndId: end.sessionEndId,
    credential: proof && { kind: proof.kind, id: proof.kind === 'api-token' ? proof.id : null },
    receivedBytes: received,
    sentBytes: sent,
  }
}
