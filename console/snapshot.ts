import type { ClusterStates } from '../gateway/listeners/admin/cluster-state.ts'
import type { HistoryQuery, HistoryReading } from '../gateway/listeners/admin/history/history.ts'
import type { AdminState } from '../gateway/listeners/admin/listener.ts'
import type { PolicyStates } from '../gateway/listeners/admin/policy-state.ts'
import type { Readiness } from '../gateway/listeners/admin/readiness.ts'
import type { ExchangePage } from '../gateway/stages/recheck/list-exchanges.ts'
import { oldestExchanges } from './exchanges.ts'
import type { ExplainChoices, Explained, ExplainQuestion } from './explain.ts'
import type { MatrixLine } from './matrix.ts'
import { type MetricsReader, readMetrics } from './metrics-reader.ts'

export type ConsoleSnapshot = Readonly<{
  now: Date
  readiness: Readiness | undefined
  figures: MetricsReader
  policies: PolicyStates | undefined
  history: HistoryReading
  clusters: ClusterStates | undefined
  exchanges: ExchangePage | undefined
  table: ConsoleTable
}>

export type SnapshotSources = Pick<
  AdminState,
  'readiness' | 'metrics' | 'policies' | 'history' | 'exchanges' | 'clusters'
> &
  Readonly<{
    table: (fingerprint: string | undefined) => Promise<ConsoleTable>
    now: () => Date
  }>

export async function takeSnapshot(
  sources: SnapshotSources,
  ask: (now: Date) => HistoryQuery,
): Promise<ConsoleSnapshot> {
  const now = sources.now()
  const policies = sources.policies().catch(() => undefined)
  const [readiness, snapshot, states, table, history, clusters, exchanges] = await Promise.all([
    sources.readiness().catch(() => undefined),
    sources.metrics().catch(() => []),
    policies,
    policies.then((known) => sources.table(known?.live.fingerprint)).catch(() => noTable),
    sources.history(ask(now)).catch(() => noHistory),
    sources.clusters().catch(() => undefined),
    sources.exchanges(oldestExchanges).catch(() => undefined),
  ])
  return { now, readiness, figures: readMetrics(snapshot), policies: states, table, history, clusters, exchanges }
}

export const noHistory: HistoryReading = {
  traffic: { total: { rows: [], recent: [], before: [] }, routes: [], upstreams: [], causes: [], drops: [] },
  callers: [],
  requests: [],
}

export type ConsoleTable = Readonly<{
  lines: readonly MatrixLine[]
  destinations: ReadonlyMap<string, string>
  choices: ExplainChoices
  explain: (question: ExplainQuestion) => Explained
}>

export const noTable: ConsoleTable = {
  lines: [],
  destinations: new Map(),
  choices: { methods: [], roles: [], platformRoles: [], tokenScopes: [] },
  explain: () => 'No process reports its policy at the moment.',
}
