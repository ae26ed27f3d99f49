import type { AdminPages, PublicKeys } from '../../observe/admin.ts'
import type { GroupMetrics } from '../../observe/group-metrics.ts'
import type { Metrics } from '../../observe/metrics.ts'
import { combineReadiness, type Readiness } from '../../observe/readiness.ts'
import type { Crew } from './crew.ts'

/** Longer than the longest ping of a database that hangs, so that /readyz can name the part. */
const readinessMs = 2_000

/** A worker that is busier than this is counted with its last numbers. */
const factsMs = 1_000

/** The admin pages of the whole group: every worker is asked, and the worst, the sum or the union is told. */
export function combinePages(
  { serving }: Pick<Crew, 'serving'>,
  group: GroupMetrics,
  own: Metrics,
  isDraining: () => boolean,
): AdminPages {
  return {
    readiness: async () => {
      const workers = serving()
      const primary: Readiness = {
        workers: workers.length > 0 ? 'ok' : 'failing',
        draining: isDraining() ? 'failing' : 'ok',
      }
      // One that does not answer still takes connections: it makes the group as unready as one that says so.
      const silent: Readiness = { workers: 'failing' }
      const answers = workers.map(({ ask }) => ask('readiness', readinessMs).catch(() => silent))
      return combineReadiness([...(await Promise.all(answers)), primary])
    },
    metrics: async () => {
      const notes = serving().map(async ({ ask, pid }) => group.note(pid, await ask('metrics', factsMs)))
      await Promise.allSettled(notes)
      return { contentType: own.contentType, text: await group.text(await own.snapshot()) }
    },
    publicKeys: async () => {
      const answers = await Promise.allSettled(serving().map(({ ask }) => ask('publicKeys', factsMs)))
      const sets = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
      // An empty set would be believed: verifiers would drop the keys that they have.
      if (sets.length === 0) throw new Error('no worker has told its keys')
      return uniteKeys(sets)
    },
  }
}

/** Workers may load a new key at different moments; what any of them signs can be verified. */
function uniteKeys(sets: readonly PublicKeys[]): PublicKeys {
  const byId = new Map(sets.flatMap(({ keys }) => keys.map((key) => [key.kid, key] as const)))
  return { keys: [...byId.values()] }
}
