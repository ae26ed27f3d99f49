import type { ClusterStates } from '../cluster-state.ts'
import type { HistoryQuery, HistoryReading } from '../history/history.ts'
import type { AdminState } from '../listener.ts'
import type { PolicyStates } from '../policy-state.ts'
import type { Readiness } from '../readiness.ts'
import type { ExplainChoices, Explained, ExplainQuestion } from './explain.ts'
import type { MatrixLine } from './matrix.ts'
import { type MetricsReader, readMetrics } from './metrics-reader.ts'

/** Everything that one page shows, as it was at one moment. What could not be learned is undefined, or empty. */
export type ConsoleSnapshot = Readonly<{
  now: Date
  readiness: Readiness | undefined
  figures: MetricsReader
  policies: PolicyStates | undefined
  /** Empty while nothing is known of it. */
  history: HistoryReading
  clusters: ClusterStates | undefined
  table: ConsoleTable
}>

export type SnapshotSources = Pick<AdminState, 'readiness' | 'metrics' | 'policies' | 'history' | 'clusters'> &
  Readonly<{
    /** The table of this fingerprint. */
    table: (fingerprint: string | undefined) => Promise<ConsoleTable>
    now: () => Date
  }>

/** Asks every source at once; one that fails leaves its place empty, and the page comes all the same. */
export async function takeSnapshot(
  sources: SnapshotSources,
  ask: (now: Date) => HistoryQuery,
): Promise<ConsoleSnapshot> {
  const now = sources.now()
  const policies = sources.policies().catch(() => undefined)
  const [readiness, snapshot, states, table, history, clusters] = await Promise.all([
    sources.readiness().catch(() => undefined),
    sources.metrics().catch(() => []),
    policies,
    policies.then((known) => sources.table(known?.live.fingerprint)).catch(() => noTable),
    sources.history(ask(now)).catch(() => noHistory),
    sources.clusters().catch(() => undefined),
  ])
  return { now, readiness, figures: readMetrics(snapshot), policies: states, table, history, clusters }
}

/** Before any process has told its history. */
export const noHistory: HistoryReading = {
  traffic: { total: { rows: [], recent: [], before: [] }, routes: [], upstreams: [], causes: [], drops: [] },
  callers: [],
  requests: [],
}

/** What the page shows of the table in force. */
export type ConsoleTable = Readonly<{
  lines: readonly MatrixLine[]
  /** The upstream of each route that has one, by the route's id. */
  destinations: ReadonlyMap<string, string>
  choices: ExplainChoices
  explain: (question: ExplainQuestion) => Explained
}>

/** Before any process has told its table. */
export const noTable: ConsoleTable = {
  lines: [],
  destinations: new Map(),
  choices: { methods: [], roles: [], platformRoles: [], tokenScopes: [] },
  explain: () => 'No process tells its table at the moment.',
}
