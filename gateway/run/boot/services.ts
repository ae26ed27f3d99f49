import { performance } from 'node:perf_hooks'
import { checkDecisionPoints, checkResourceHeaders, checkRuleNames } from '../../analyze/rule-names.ts'
import type { Configuration } from '../../configuration/configuration.ts'
import { readVersion } from '../../configuration/version.ts'
import type { Networks } from '../../http/upstream/networks.ts'
import type { SignalReceivers } from '../../listeners/signals/signals.ts'
import type { Audit } from '../../observe/audit/audit.ts'
import { openTracing, type Tracing } from '../../observe/tracing/tracing.ts'
import type { Snapshot } from '../../pipeline.ts'
import type { Policy } from '../../policy/compile.ts'
import { HeardLog } from '../../rights/heard.ts'
import { type IdentityKeys, startKeys } from '../reload/identity-keys.ts'
import { startPolicies, type TablePolicies } from '../reload/policies.ts'
import { type Shadow, startShadow } from '../reload/shadow.ts'
import { openAudit } from './audit.ts'
import { type DecisionPoints, openDecisionPoints } from './decision-points.ts'
import { type OpenDirectory, openDirectory } from './directory.ts'
import { type Issuers, startIssuers } from './issuers.ts'
import { type OpenLogouts, openLogouts } from './logouts.ts'
import { type WatchedExchanges, watchExchanges } from './open-exchanges.ts'
import { type Polls, startPolls } from './poll-transmitters.ts'
import type { ProcessContext } from './process-context.ts'
import { createSnapshot } from './snapshot.ts'
import { startUpstreams, type Upstreams } from './upstreams.ts'

export const now = (): Date => new Date()
export const monotonicMs = (): number => performance.now()

export type Services = Readonly<{
  tracing: Tracing | undefined
  audit: Audit
  keys: IdentityKeys
  opened: OpenDirectory
  upstreams: Upstreams
  policies: TablePolicies
  shadow: Shadow
  issuers: Issuers
  exchanges: WatchedExchanges
  decisionPoints: DecisionPoints
  logouts: OpenLogouts
  receivers: SignalReceivers
  polls: Polls
  snapshot: () => Snapshot
}>

export async function startServices(
  configuration: Configuration,
  clusterNetworks: Networks,
  { log, metrics, engine, isFirstWorker }: ProcessContext,
): Promise<Services> {
  const tracing = await openTracing(process.env, readVersion(), log)
  const audit = openAudit(configuration, { log, metrics, monotonicMs })
  const keys = await startKeys(configuration, { log, metrics, now })

  let current: Snapshot | undefined
  const snapshot = (): Snapshot => {
    if (!current) throw new Error('no policy is in force')
    return current
  }
  const opened = openDirectory(configuration, snapshot, { log, metrics, now, monotonicMs })
  // Before all that writes to the database or answers from it.
  await opened.requireUsable().catch(async (error: unknown) => {
    await opened.close()
    throw error
  })
  const upstreams = startUpstreams(configuration, { log, metrics, send: engine.send, monotonicMs })
  const logouts = openLogouts(configuration, opened, { log, metrics, now, monotonicMs })
  const heard = new HeardLog()
  const decisionPoints = openDecisionPoints(configuration, opened.rights.knownAt, {
    ...{ log, metrics, now, monotonicMs, heard },
    follow: tracing?.beginQuestion,
  })
  const watching = { log, metrics, audit, logouts, decisionPoints, heard, now, monotonicMs }
  const exchanges = watchExchanges(configuration, opened, snapshot, watching)
  opened.rights.onChange((change) => {
    // First the log, in which the others look.
    exchanges.hear(change)
    logouts.hear(change)
  })
  const adopt = (policy: Policy): void => {
    if (!current) checkRuleNames(configuration, policy)
    checkDecisionPoints(configuration, policy)
    checkResourceHeaders(configuration, policy)
    decisionPoints.noteTable()
    current = createSnapshot(configuration, policy, upstreams.settings, opened.directory, clusterNetworks, now)
    exchanges.recheck.recheckAll()
  }
  const { policyTables: tables, issuerKeys: keyStore } = opened.stores
  const policies = await startPolicies(configuration, adopt, { log, metrics, now, monotonicMs, tables })
  const shadow = startShadow(configuration, { inForce: policies.texts, log, metrics, now, monotonicMs })
  const issuers = startIssuers(configuration, { log, metrics, now, monotonicMs, keyStore })
  const receivers = logouts.receiveFrom(issuers)
  const polls = startPolls(isFirstWorker ? configuration : undefined, receivers, opened.stores.eventStreams, {
    ...{ log, metrics, now, monotonicMs },
  })
  const readers = { policies, shadow, issuers, exchanges, decisionPoints, logouts, receivers, polls, snapshot }
  return { tracing, audit, keys, opened, upstreams, ...readers }
}
