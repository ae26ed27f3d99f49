import { createCachedDirectory } from '../directory/cache/cached-directory.ts'
import { createFreshness } from '../directory/cache/freshness.ts'
import type { ChangeHandlers, ChangeSource } from '../directory/change.ts'
import type { Directory } from '../directory/directory.ts'
import { listenToPostgres } from '../directory/postgres/change-listener.ts'
import { createPostgresDirectory } from '../directory/postgres/directory.ts'
import { type Database, type ObserveQuery, openDatabase } from '../directory/postgres/pool.ts'
import { nameQueryFailure } from '../directory/postgres/query-failure.ts'
import { collectTokenUses } from '../directory/postgres/token-uses.ts'
import { createReadHeartbeat, type ReadHeartbeat, withHeartbeats } from '../directory/redis/heartbeats.ts'
import { linkRedis, type RedisLink } from '../directory/redis/redis-link.ts'
import { describeError, type ProcessLog } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Configuration } from './configuration.ts'

/** The directory with its caches, and what keeps them true. */
export type OpenDirectory = Readonly<{
  directory: Directory
  database: Database
  readHeartbeat: ReadHeartbeat
  /** Where Redis is configured: the connection to it, undefined while there is none. */
  redisConnection: (() => object | undefined) | undefined
  /** Writes what is still to be written, and lets go of every connection. */
  close: () => Promise<void>
}>

type Surroundings = Readonly<{ log: ProcessLog; metrics: Metrics; now: () => Date; monotonicMs: () => number }>

/** Opens PostgreSQL, the caches before it, and every way on which changes reach them. */
export function openDirectory(configuration: Configuration, surroundings: Surroundings): OpenDirectory {
  const { log, metrics, now, monotonicMs } = surroundings
  const warn = (message: string) => (error: unknown) => log.warn({ error: describeError(error) }, message)
  const database = openDatabase(configuration.database, warn('database connection lost'), {
    monotonicMs,
    onQuery: reportQueries(metrics),
  })
  metrics.watchPool(database.countConnections, configuration.database.poolSize)
  const tokenUses = collectTokenUses(database.query, warn('token uses could not be written yet'))
  const store = createPostgresDirectory(database, tokenUses.note)

  const freshness = createFreshness(monotonicMs)
  let redis: RedisLink | undefined
  const cached = createCachedDirectory(store, {
    ...configuration.cache,
    freshness,
    onRead: metrics.countCacheRead,
    announce: (change) => redis?.announce(change),
  })
  metrics.watchCacheSizes(cached.sizes)
  const provedAtMs = new Map<ChangeSource['name'], number>()
  const handlersOf = (name: ChangeSource['name'], hearsAll: boolean): ChangeHandlers => ({
    onChange: (change) => {
      metrics.countChange(name)
      log.debug({ source: name, ...change }, 'change heard')
      cached.forget(change)
    },
    onConnected: () => {
      log.info({ source: name }, 'listening for changes; the caches start empty')
      cached.forget({ kind: 'everything' })
    },
    onProof: (atMs) => {
      provedAtMs.set(name, atMs)
      if (hearsAll) freshness.prove(atMs)
    },
    onLost: (error) => {
      metrics.countChangeLoss(name)
      log.warn({ source: name, error: describeError(error) }, 'changes are not heard; nothing is held for long')
    },
  })
  const { url, listenUrl = url, connectTimeoutMs } = configuration.database
  const sources: ChangeSource[] = [
    listenToPostgres({ url: listenUrl, connectTimeoutMs, monotonicMs }, handlersOf('postgres', true)),
  ]
  let directory = cached.directory
  let readHeartbeat: ReadHeartbeat = async () => undefined
  if (configuration.redis.url) {
    const { url, hearsEveryWriter } = configuration.redis
    redis = linkRedis({ url, monotonicMs, onCommand: metrics.observeRedis }, handlersOf('redis', hearsEveryWriter))
    sources.push(redis)
    const { maxEntries } = configuration.cache
    readHeartbeat = createReadHeartbeat({ read: redis.read, maxEntries, now, monotonicMs })
    directory = withHeartbeats(directory, readHeartbeat)
  }
  for (const { name, isUp } of sources)
    metrics.watchChangeSource(name, isUp, () => {
      const atMs = provedAtMs.get(name)
      return atMs === undefined ? undefined : monotonicMs() - atMs
    })

  return {
    directory,
    database,
    readHeartbeat,
    redisConnection: redis?.connection,
    close: async () => {
      tokenUses.stop()
      await tokenUses.flush().catch(warn('token uses were lost'))
      await Promise.all([...sources.map((source) => source.stop()), database.close()])
    },
  }
}

const reportQueries =
  (metrics: Metrics): ObserveQuery =>
  (statement, ms, error) => {
    metrics.observeQuery(statement, ms)
    const failure = error === undefined ? undefined : nameQueryFailure(error)
    if (failure) metrics.countQueryFailure(failure)
  }
