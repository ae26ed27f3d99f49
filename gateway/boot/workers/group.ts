import { availableParallelism } from 'node:os'
import type { AdminPages, PublicKeys } from '../../observe/admin.ts'
import { createGroupMetrics, type GroupMetrics } from '../../observe/group-metrics.ts'
import type { Metrics } from '../../observe/metrics.ts'
import { combineReadiness, type Readiness } from '../../observe/readiness.ts'
import { checkConfiguration } from '../check-configuration.ts'
import type { Configuration } from '../configuration.ts'
import type { Drain, Gateway } from '../gateway.ts'
import { createSurroundings, openAdmin } from '../surroundings.ts'
import { type Crew, startCrew } from './crew.ts'

/** How many processes the configuration wants on this machine. */
export const countWorkers = ({ workers }: Configuration): number =>
  workers === 'auto' ? availableParallelism() : workers

/** Longer than the longest ping of a database that hangs, so that /readyz can name the part. */
const readinessMs = 2_000

/** No request of ours keeps an event loop busy for a hundredth of this. */
const silenceMs = 30_000

/** A worker that is busier than this is counted with its last numbers. */
const factsMs = 1_000

/**
 * A gateway of several processes: this one, the primary, keeps `size` workers and the admin listener, and does no
 * request's work. `onFailure` is told when the workers cannot be kept.
 */
export async function startGroup(
  configuration: Configuration,
  configurationFile: string,
  size: number,
  onFailure: (error: Error) => void,
): Promise<Gateway> {
  await checkConfiguration(configuration, configurationFile)
  const surroundings = createSurroundings(configuration)
  const { log, metrics, engine } = surroundings
  const group = createGroupMetrics()
  const crew = startCrew({
    size,
    listeners: { public: configuration.listeners.public, decision: configuration.listeners.decision },
    log,
    monotonicMs: () => performance.now(),
    silenceMs,
    onDeath: ({ pid }) => group.retire(pid),
    onRestart: group.countRestart,
    onFailure,
  })
  group.watchWorkers(() => crew.serving().length)
  const stands = await crew.started
  let stopped: Promise<void> | undefined
  const admin = await openAdmin(
    configuration,
    surroundings,
    combinePages(crew, group, metrics, () => stopped !== undefined),
  )
  const addresses = { public: stands.public, decision: stands.decision, admin: admin.address }
  log.info({ ...addresses, workers: size }, 'listening')

  const stop: Drain = async (options) => {
    const { delayMs, timeoutMs } = { ...configuration.drain, ...options }
    log.info({ delayMs, timeoutMs }, 'draining')
    try {
      await crew.drain({ delayMs, timeoutMs })
      await Promise.all([admin.close(), engine.close()])
      log.info({}, 'stopped')
    } finally {
      log.flush()
    }
  }
  return {
    ...addresses,
    drain: (options) => {
      stopped ??= stop(options)
      return stopped
    },
  }
}

/** The admin pages of the whole group: every worker is asked, and the worst, the sum or the union is told. */
function combinePages(crew: Crew, group: GroupMetrics, own: Metrics, isDraining: () => boolean): AdminPages {
  return {
    readiness: async () => {
      const workers = crew.serving()
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
      const notes = crew.serving().map(async ({ ask, pid }) => group.note(pid, await ask('metrics', factsMs)))
      await Promise.allSettled(notes)
      return { contentType: own.contentType, text: await group.text(await own.snapshot()) }
    },
    publicKeys: async () => {
      const answers = await Promise.allSettled(crew.serving().map(({ ask }) => ask('publicKeys', factsMs)))
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
