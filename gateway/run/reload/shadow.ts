import type { PolicySummary } from '../../analyze/diff/summarize.ts'
import { summarizeInThread } from '../../analyze/diff/summarize-in-thread.ts'
import type { ShadowTable } from '../../analyze/shadow/compare.ts'
import { observeShadow } from '../../analyze/shadow/record-differences.ts'
import { createReport } from '../../analyze/shadow/report.ts'
import type { Configuration } from '../../configuration/configuration.ts'
import { readUpstreamAddresses } from '../../configuration/upstream-addresses.ts'
import type { PolicyState } from '../../listeners/admin/policy-state.ts'
import { describeBug, describeError, type Log } from '../../observe/log/log.ts'
import type { Metrics } from '../../observe/metrics/metrics.ts'
import type { ObserveRequest } from '../../observe/request-record.ts'
import type { PolicyTexts } from '../../policy/file.ts'
import { parsePolicyInThread, readPolicyTexts } from '../../policy/load.ts'
import { policyLookMs } from '../../rights/budget.ts'
import { compileRoutes } from '../../stages/route/table.ts'
import { createCachedFileReader } from './cached-file-reader.ts'
import { cutSummary, type Policies } from './policies.ts'
import { type PolicyStatus, type PolicyTextList, trackPolicyStatus } from './policy-status.ts'
import { createFilesWatch, repeat } from './watch-files.ts'

export type Shadow = Policies &
  Readonly<{
    observe: ObserveRequest
    state: () => PolicyState | undefined
  }>

type ShadowDependencies = Readonly<{
  inForce: () => PolicyTextList
  log: Log
  metrics: Metrics
  now: () => Date
  monotonicMs: () => number
}>

/**
 * Without a shadow directory the requests' observer is unchanged. A faulty shadow is logged, and the gateway serves.
 */
export function startShadow(configuration: Configuration, dependencies: ShadowDependencies): Shadow {
  const { inForce, log, metrics, now, monotonicMs } = dependencies
  const { shadow: directory } = configuration.policies
  if (directory === undefined) return noShadow
  const status = trackPolicyStatus(directory, now)
  const upstreams = readUpstreamAddresses(configuration)
  const readText = createCachedFileReader()
  let table: ShadowTable | undefined
  const compare = createComparison(inForce, status, log, (old, fresh) =>
    summarizeInThread({ directory, old: new Map(old), fresh: new Map(fresh), upstreams }),
  )
  const look = createFilesWatch<PolicyTexts | undefined>({
    inUse: undefined,
    read: () => readPolicyTexts(directory, readText),
    apply: async (texts = new Map()) => {
      const { routes, roles } = await parsePolicyInThread(directory, texts, upstreams)
      table = Object.freeze({ table: compileRoutes(routes, { widensOptions: !configuration.cors }), roles })
      status.noteTaken(texts)
    },
    noteOutcome: (isGood, error) => {
      metrics.noteShadowReload(isGood)
      status.noteOutcome(isGood, error)
    },
    log,
    messages: {
      failed: 'shadow policy load failed; the last good ones stay in use',
      reloaded: 'shadow policies loaded',
      restored: 'shadow policy files match the ones in use again',
    },
  })
  const onBug = (error: unknown): void => log.error({ error: describeBug(error) }, 'shadow policy check failed')
  const reload = (): Promise<void> => look(true).catch(onBug)
  void reload()
  const report = createReport({ log, metrics, monotonicMs })
  return {
    observe: observeShadow(() => table, report),
    reload,
    stop: repeat(() => look().finally(compare), policyLookMs, onBug),
    state: status.state,
  }
}

type Compare = (old: PolicyTextList, fresh: PolicyTextList) => Promise<PolicySummary>

/** Each poll asks, so that one comparison at a time follows both policies, whichever of them changes. */
function createComparison(inForce: () => PolicyTextList, status: PolicyStatus, log: Log, compare: Compare): () => void {
  let isComparing = false
  let compared: Readonly<{ old: PolicyTextList; fresh: PolicyTextList }> | undefined
  return () => {
    const [old, fresh] = [inForce(), status.texts()]
    const isOnTrial = status.state().loadedAt !== undefined
    if (!isOnTrial || isComparing || (compared?.old === old && compared.fresh === fresh)) return
    isComparing = true
    compared = { old, fresh }
    compare(old, fresh)
      .then(
        (summary) => {
          const named = cutSummary(summary)
          status.noteChange(named)
          log.info(named, 'shadow policy compared with the one in force')
        },
        (error: unknown) => log.error({ error: describeError(error) }, 'shadow policy comparison failed'),
      )
      .finally(() => {
        isComparing = false
      })
  }
}

const noShadow: Shadow = {
  observe: (observer) => observer,
  reload: async () => undefined,
  stop: () => undefined,
  state: () => undefined,
}
