import { type Configuration, requireDatabase } from '../../configuration/configuration.ts'
import type { Freshness } from '../../directory/cache/freshness.ts'
import type { Change, ChangeHandlers, ChangeSource } from '../../directory/change.ts'
import { listenToPostgres } from '../../directory/postgres/change-listener.ts'
import type { Servers } from '../../directory/postgres/servers.ts'
import { linkRedis, type RedisLink, type RedisSettings } from '../../directory/redis/redis-link.ts'
import type { RefusableCommand } from '../../directory/redis/refusals.ts'
import { describeError, type ProcessLog } from '../../observe/log/log.ts'
import type { Metrics } from '../../observe/metrics/metrics.ts'
import { createStartGrace } from './start-grace.ts'

type ChangeDependencies = Readonly<{ log: ProcessLog; metrics: Metrics; monotonicMs: () => number }>

type FollowedChanges = Readonly<{
  /** `hearsAll`: this source reports every change, so its heartbeats prove that the caches are fresh. */
  handlersOf: (name: ChangeSource['name'], hearsAll: boolean) => ChangeHandlers
  watch: (source: Pick<ChangeSource, 'name' | 'isUp'>) => void
}>

/** Any role of the database may send such messages, thousands a second. */
const tellUnreadableEveryMs = 60_000

export function followChanges(
  forget: (change: Change) => void,
  freshness: Freshness,
  { log, metrics, monotonicMs }: ChangeDependencies,
): FollowedChanges {
  const toldAtMs = new Map<ChangeSource['name'], number>()
  const provedAtMs = new Map<ChangeSource['name'], number>()
  return {
    handlersOf: (name, hearsAll) => {
      const grace = createStartGrace(monotonicMs)
      return {
        onChange: (change) => {
          metrics.countInvalidation(name)
          log.debug({ source: name, ...withoutToken(change) }, 'invalidation received')
          forget(change)
        },
        onConnected: () => {
          grace.noteSuccess()
          log.info({ source: name }, 'invalidation source connected; caches cleared')
          forget({ kind: 'everything' })
        },
        onSynced: (atMs) => {
          provedAtMs.set(name, atMs)
          if (hearsAll) freshness.markSynced(atMs)
        },
        onLost: (error) =>
          grace.tell(() => {
            metrics.countInvalidationDisconnect(name)
            log.warn({ source: name, error: describeError(error), ...losses[name] }, 'invalidation source lost')
          }),
        onUnreadable: () => {
          metrics.countUnreadableChange(name)
          const nowMs = monotonicMs()
          if (nowMs - (toldAtMs.get(name) ?? Number.NEGATIVE_INFINITY) < tellUnreadableEveryMs) return
          toldAtMs.set(name, nowMs)
          log.warn({ source: name }, 'change not readable; all caches cleared')
        },
      }
    },
    watch: ({ name, isUp }) =>
      metrics.watchInvalidationSource(name, isUp, () => {
        const atMs = provedAtMs.get(name)
        return atMs === undefined ? undefined : monotonicMs() - atMs
      }),
  }
}

export function hearPostgres(
  configuration: Configuration,
  servers: Servers,
  handlers: ChangeHandlers,
  { log, metrics, monotonicMs }: ChangeDependencies,
): ChangeSource | undefined {
  const { url, listenUrl, pooler, connectTimeoutMs } = requireDatabase(configuration)
  if (listenUrl === undefined && pooler === 'transaction') {
    // LISTEN belongs to a session, which a transaction pooler does not keep.
    log.warn({}, 'database listener disabled behind a transaction pooler; set database.listenUrl to PostgreSQL itself')
    metrics.watchInvalidationSource(
      'postgres',
      () => false,
      () => undefined,
    )
    return undefined
  }
  return listenToPostgres({ url: listenUrl ?? url, connectTimeoutMs, monotonicMs, servers }, handlers)
}

export function openRedis(
  { redis }: Configuration,
  handlers: ChangeHandlers,
  { log, metrics, monotonicMs }: ChangeDependencies,
): RedisLink {
  const settings: RedisSettings = {
    ...redis,
    monotonicMs,
    onCommand: metrics.observeRedis,
    onRefused: (command, cause) =>
      log.warn({ command, cause, consequence: consequences[command] }, 'redis command refused'),
    onTaken: (command) => log.info({ command }, 'redis command accepted again'),
  }
  const link = linkRedis(settings, handlers)
  metrics.watchRedisRefusals(link.isRefused)
  return link
}

const consequences: Readonly<Record<RefusableCommand, string>> = {
  get: 'heartbeats in redis are not read',
  publish: 'other replicas receive changes from postgres alone',
  count: 'rate limits are not counted, so requests pass, or get 503 with onError deny',
}

const withoutToken = (change: Change): Change | Pick<Change, 'kind'> =>
  change.kind === 'logout-token' ? { kind: change.kind } : change

const losses: Readonly<Record<ChangeSource['name'], Readonly<{ consequence: string }>>> = {
  postgres: { consequence: 'cache entries expire within a second' },
  redis: { consequence: Object.values(consequences).join('; ') },
}
