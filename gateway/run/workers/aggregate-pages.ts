import { mergeHistories } from '../../listeners/admin/history/history.ts'
import type { AdminPages, AdminState, PublicKeys } from '../../listeners/admin/listener.ts'
import { choosePolicyStates } from '../../listeners/admin/policy-state.ts'
import { combineReadiness, type Readiness } from '../../listeners/admin/readiness.ts'
import type { MetricsSnapshot } from '../../observe/metrics/combine.ts'
import type { GroupMetrics } from '../../observe/metrics/group.ts'
import type { Metrics } from '../../observe/metrics/metrics.ts'
import { mergePages } from '../../stages/recheck/list-exchanges.ts'
import type { WorkerAnswer, WorkerQuery, WorkerQuestion } from './messages.ts'
import type { WorkerPool } from './worker-pool.ts'

/** Longer than the longest ping of a database that hangs, so that /readyz can name the component. */
const readinessMs = 2_000

/** A worker that is busier than this is counted with its last numbers. */
const factsMs = 1_000

export function aggregatePages(
  { serving }: Pick<WorkerPool, 'serving'>,
  group: GroupMetrics,
  own: Metrics,
  isDraining: () => boolean,
  openConsole: (facts: AdminState) => AdminPages['console'],
): AdminPages {
  const noteMetrics = async (): Promise<MetricsSnapshot> => {
    const notes = serving().map(async ({ ask, pid }) => group.note(pid, await ask('metrics', factsMs)))
    await Promise.allSettled(notes)
    return own.snapshot()
  }
  const facts: AdminState = {
    ...combineFacts(serving, isDraining),
    metrics: async () => group.snapshot(await noteMetrics()),
  }
  return {
    ...facts,
    metrics: async () => ({ contentType: own.contentType, text: await group.text(await noteMetrics()) }),
    console: openConsole(facts),
  }
}

function combineFacts(serving: WorkerPool['serving'], isDraining: () => boolean): Omit<AdminState, 'metrics'> {
  const askAll = async <Name extends WorkerQuestion>(
    question: Name,
    withinMs: number,
    query?: WorkerQuery<Name>,
  ): Promise<readonly WorkerAnswer<Name>[]> => {
    const answers = await Promise.allSettled(serving().map(({ ask }) => ask(question, withinMs, query)))
    return answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
  }
  const askFirst = <Name extends WorkerQuestion>(
    question: Name,
    withinMs: number,
    query?: WorkerQuery<Name>,
  ): Promise<WorkerAnswer<Name>> => Promise.any(serving().map(({ ask }) => ask(question, withinMs, query)))
  return {
    readiness: async () => {
      // A silent worker still takes connections, so it makes the group unready; an ended one does not.
      const answers = await Promise.all(
        serving().map(({ ask, isGone }) =>
          ask('readiness', readinessMs).catch((): Readiness => (isGone() ? {} : { workers: 'failing' })),
        ),
      )
      const primary: Readiness = {
        workers: serving().length > 0 ? 'ok' : 'failing',
        draining: isDraining() ? 'failing' : 'ok',
      }
      return combineReadiness([...answers, primary])
    },
    publicKeys: async () => {
      const sets = await askAll('publicKeys', factsMs)
      // Verifiers would believe an empty set and drop the keys that they have.
      if (sets.length === 0) throw new Error('no worker has sent its keys')
      return uniteKeys(sets)
    },
    policies: async () => {
      const states = choosePolicyStates(await askAll('policies', factsMs))
      if (!states) throw new Error('no worker has sent its policies')
      return states
    },
    policyTexts: () => askFirst('policyTexts', factsMs),
    history: async (query) => mergeHistories(await askAll('history', factsMs, query)),
    exchanges: async (query) => mergePages(await askAll('exchanges', factsMs, query), query.limit),
    clusters: () => askFirst('clusters', readinessMs),
    whoMay: (query) => askFirst('whoMay', readinessMs, query),
  }
}

/** Workers may load a new key at different moments; the union verifies the signatures of each. */
function uniteKeys(sets: readonly PublicKeys[]): PublicKeys {
  const byId = new Map(sets.flatMap(({ keys }) => keys.map((key) => [key.kid, key] as const)))
  return { keys: [...byId.values()] }
}
