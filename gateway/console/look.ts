import type { AdminFacts } from '../observe/admin.ts'
import type { ClusterStates } from '../observe/cluster-state.ts'
import type { PolicyStates } from '../observe/policy-state.ts'
import type { Readiness } from '../observe/readiness.ts'
import type { Refusal } from '../observe/refusals.ts'
import { type Figures, readFigures } from './figures.ts'
import { type ConsoleTable, noTable } from './table.ts'

/** Everything that one page shows, as it was at one moment. What could not be learned is undefined, or empty. */
export type Look = Readonly<{
  now: Date
  readiness: Readiness | undefined
  figures: Figures
  policies: PolicyStates | undefined
  refusals: readonly Refusal[]
  clusters: ClusterStates | undefined
  table: ConsoleTable
}>

export type LookSources = Pick<AdminFacts, 'readiness' | 'metrics' | 'policies' | 'refusals' | 'clusters'> &
  Readonly<{
    /** The table of this fingerprint. */
    table: (fingerprint: string | undefined) => Promise<ConsoleTable>
    now: () => Date
  }>

/** Asks every source at once; one that fails leaves its place empty, and the page comes all the same. */
export async function takeLook(sources: LookSources): Promise<Look> {
  const policies = sources.policies().catch(() => undefined)
  const [readiness, snapshot, states, table, refusals, clusters] = await Promise.all([
    sources.readiness().catch(() => undefined),
    sources.metrics().catch(() => []),
    policies,
    policies.then((known) => sources.table(known?.live.fingerprint)).catch(() => noTable),
    sources.refusals().catch(() => []),
    sources.clusters().catch(() => undefined),
  ])
  return { now: sources.now(), readiness, figures: readFigures(snapshot), policies: states, table, refusals, clusters }
}
