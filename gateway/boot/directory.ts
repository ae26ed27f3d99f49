import { PartError } from '../admin/readiness.ts'
import type { Configuration } from '../configuration/configuration.ts'
import { createCachedDirectory } from '../directory/cache/cached-directory.ts'
import { createFreshness, type Freshness } from '../directory/cache/freshness.ts'
import { createGrace } from '../directory/cache/grace.ts'
import type { Change, ChangeHandlers, ChangeSource } from '../directory/change.ts'
import type { Directory } from '../directory/directory.ts'
import { guardLookups } from '../directory/lookups/guard-lookups.ts'
import { listenToPostgres } from '../directory/postgres/change-listener.ts'
import { createPostgresDirectory } from '../directory/postgres/directory.ts'
import { type Database, type ObserveQuery, openDatabase } from '../directory/postgres/pool.ts'
import { nameQueryFailure } from '../directory/postgres/query-failure.ts'
import { PoolerError } from '../directory/postgres/recognize-pooler.ts'
import {
  createFindSchemaFault,
  type FindSchemaFault,
  type SchemaWatch,
  watchSchema,
} from '../directory/postgres/schema-fault.ts'
import { createServers, type Server, type Servers, StandbyLagError } from '../directory/postgres/servers.ts'
import { createFindHashes } from '../directory/postgres/token-store.ts'
import { collectTokenUses } from '../directory/postgres/token-uses.ts'
import { createReadHeartbeat, type ReadHeartbeat, withHeartbeats } from '../directory/redis/heartbeats.ts'
import { linkRedis, type RedisLink, type RedisSettings } from '../directory/redis/redis-link.ts'
import type { RefusableCommand } from '../directory/redis/refusals.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import type { CountBy } from '../limit/count-in-redis.ts'
import { readNetwork } from '../network/network.ts'
import { createGuessLog } from '../observe/log/guess-log.ts'
import { describeError, type ProcessLog } from '../observe/log/log.ts'
import type { Metrics } from '../observe/metrics/metrics.ts'

/** The directory with its caches, and what keeps them true. */
export type OpenDirectory = Readonly<{
  directory: Directory
  database: Database
  /** Rejects where the database does not answer, or not as it should. */
  checkAnswers: () => Promise<void>
  /** Rejects with `PartError` where the database answers and takes no changes. */
  checkWrites: () => Promise<void>
  /** Rejects with `PartError` where the database lacks what requests need. */
  checkSchema: () => Promise<void>
  readHeartbeat: ReadHeartbeat
  /** Where Redis is configured: how rate limits count there. */
  countBy: CountBy | undefined
  /** Writes what is still to be written, and lets go of every connection. */
  close: () => Promise<void>
}>

type DirectoryDependencies = Readonly<{ log: ProcessLog; metrics: Metrics; now: () => Date; monotonicMs: () => number }>

/** Opens PostgreSQL, the caches before it, and every way on which changes reach them. */
export function openDirectory(configuration: Configuration, dependencies: DirectoryDependencies): OpenDirectory {
  const { log, metrics, now, monotonicMs } = dependencies
  const freshness = createFreshness(monotonicMs)
  const servers = createServers({
    monotonicMs,
    isSplit: configuration.database.listenUrl !== undefined,
    hearsElsewhere: configuration.redis.allWritersPublish,
    onForeign: freshness.restrict,
  })
  const { database, schema, answeredAtMs } = openPostgres(configuration, servers, dependencies)
  const tokenUses = collectTokenUses(database.query, (error) => {
    // Of a standby it is known, and said elsewhere.
    if (!isReadOnly(error)) warnOf(log, 'token uses could not be written yet')(error)
  })
  const store = createPostgresDirectory(database, {
    noteTokenUse: tokenUses.note,
    onLinked: (userId, issuer, arrival) => log.info({ userId, issuer, ...arrival }, 'identity linked'),
  })
  const guarded = guardUnknownTokens(configuration, store, database, dependencies)
  let redis: RedisLink | undefined
  const cached = createCachedDirectory(guarded, {
    ...configuration.cache,
    freshness,
    grace: openGrace(configuration, dependencies),
    onRead: metrics.countCacheRead,
    announce: (change) => redis?.announce(change),
  })
  metrics.watchCacheSizes(cached.sizes)
  const changes = followChanges(cached.forget, freshness, dependencies)
  const postgres = hearPostgres(configuration, servers, changes.handlersOf('postgres', true), dependencies)
  const { url, allWritersPublish } = configuration.redis
  if (url) redis = openRedis(configuration, changes.handlersOf('redis', allWritersPublish), dependencies)
  const sources = [postgres, redis].filter((source) => source !== undefined)
  for (const source of sources) changes.watch(source)

  const { maxEntries } = configuration.cache
  const readHeartbeat: ReadHeartbeat = redis
    ? createReadHeartbeat({ read: redis.read, maxEntries, now, monotonicMs })
    : async () => undefined
  const directory = redis ? withHeartbeats(cached.directory, readHeartbeat) : cached.directory
  const checkSchema = reportSchema(schema.find, log)
  // Said at the start, and known when an outage comes. One that cannot be asked now is asked by the next probe.
  checkSchema().catch(() => undefined)
  return {
    directory,
    database,
    checkAnswers: checkAnswersOf(directory, () => monotonicMs() - answeredAtMs() < configuration.directory.graceMs),
    checkWrites: checkWritesOf(directory, servers),
    checkSchema,
    readHeartbeat,
    countBy: redis && countIn(redis),
    close: async () => {
      tokenUses.stop()
      await tokenUses.flush().catch(warnOf(log, 'token uses were lost'))
      await Promise.all([...sources.map((source) => source.stop()), database.close()])
    },
  }
}

const warnOf = (log: ProcessLog, message: string) => (error: unknown) =>
  log.warn({ error: describeError(error) }, message)

type Postgres = Readonly<{ database: Database; schema: SchemaWatch; answeredAtMs: () => number }>

/** The pool, with everything that watches its answers. */
function openPostgres(
  configuration: Configuration,
  servers: Servers,
  { log, metrics, monotonicMs }: DirectoryDependencies,
): Postgres {
  const reportQuery = reportQueries(metrics)
  const noteServer = reportServer(servers, log)
  let answeredAtMs = Number.NEGATIVE_INFINITY
  const database = openDatabase(configuration.database, warnOf(log, 'database connection lost'), {
    monotonicMs,
    onQuery: (statement, ms, error) => {
      reportQuery(statement, ms, error)
      if (error !== undefined) schema.noteFailure(error)
    },
    servers: {
      requireRecent: servers.requireRecent,
      noteAnswer: (server) => {
        servers.noteAnswer(server)
        answeredAtMs = monotonicMs()
        noteServer(server)
      },
    },
    onUnnamedPooler: (error) => log.error({ error: describeError(error) }, 'connection pooler found'),
  })
  const schema = watchSchema(createFindSchemaFault(database), monotonicMs)
  metrics.watchStandby(() => servers.current()?.isStandby, servers.lagMs)
  metrics.watchPool(database.countConnections, configuration.database.poolSize)
  return { database, schema, answeredAtMs: () => answeredAtMs }
}

/** Keeps those who guess tokens from the connections that the other requests need. */
function guardUnknownTokens(
  configuration: Configuration,
  store: Directory,
  database: Database,
  { log, metrics, monotonicMs }: DirectoryDependencies,
): Directory {
  const logGuess = createGuessLog(log, monotonicMs)
  const guarded = guardLookups(store, {
    findHashes: createFindHashes(database.query),
    poolSize: configuration.database.poolSize,
    maxEntries: configuration.cache.maxEntries,
    limit: configuration.authentication.unknownTokens,
    ownerOf: readNetwork,
    monotonicMs,
    onUnknown: (outcome, owner) => {
      metrics.countUnknownToken(outcome)
      if (outcome !== 'found') logGuess(owner)
    },
  })
  metrics.watchUnknownTokens(guarded.countWaiting)
  return guarded.directory
}

const openGrace = ({ directory: { graceMs } }: Configuration, { log, monotonicMs }: DirectoryDependencies) =>
  createGrace({
    graceMs,
    monotonicMs,
    isOutage,
    onBegin: () => log.warn({ graceMs }, 'PostgreSQL cannot be asked; what was known before answers'),
    onEnd: (reads) => log.warn({ reads }, 'PostgreSQL answers again'),
  })

type FollowedChanges = Readonly<{
  /** A source that hears all changes keeps the caches by its proofs. */
  handlersOf: (name: ChangeSource['name'], hearsAll: boolean) => ChangeHandlers
  watch: (source: Pick<ChangeSource, 'name' | 'isUp'>) => void
}>

/** Takes changes from every source, and tells of the sources themselves. */
function followChanges(
  forget: (change: Change) => void,
  freshness: Freshness,
  { log, metrics, monotonicMs }: DirectoryDependencies,
): FollowedChanges {
  const provedAtMs = new Map<ChangeSource['name'], number>()
  return {
    handlersOf: (name, hearsAll) => ({
      onChange: (change) => {
        metrics.countInvalidation(name)
        log.debug({ source: name, ...change }, 'invalidation received')
        forget(change)
      },
      onConnected: () => {
        log.info({ source: name }, 'listening for changes; the caches start empty')
        forget({ kind: 'everything' })
      },
      onSynced: (atMs) => {
        provedAtMs.set(name, atMs)
        if (hearsAll) freshness.markSynced(atMs)
      },
      onLost: (error) => {
        metrics.countInvalidationDisconnect(name)
        log.warn({ source: name, error: describeError(error), ...losses[name] }, 'invalidation source lost')
      },
    }),
    watch: ({ name, isUp }) =>
      metrics.watchInvalidationSource(name, isUp, () => {
        const atMs = provedAtMs.get(name)
        return atMs === undefined ? undefined : monotonicMs() - atMs
      }),
  }
}

/** Undefined where no connection of the configuration can listen. */
function hearPostgres(
  { database: { url, listenUrl, pooler, connectTimeoutMs } }: Configuration,
  servers: Servers,
  handlers: ChangeHandlers,
  { log, metrics, monotonicMs }: DirectoryDependencies,
): ChangeSource | undefined {
  if (listenUrl === undefined && pooler === 'transaction') {
    // LISTEN belongs to a session, and there is none.
    log.warn({}, 'no invalidations arrive through a transaction pooler; set database.listenUrl to PostgreSQL itself')
    metrics.watchInvalidationSource(
      'postgres',
      () => false,
      () => undefined,
    )
    return undefined
  }
  return listenToPostgres({ url: listenUrl ?? url, connectTimeoutMs, monotonicMs, servers }, handlers)
}

function openRedis(
  { redis }: Configuration,
  handlers: ChangeHandlers,
  { log, metrics, monotonicMs }: DirectoryDependencies,
): RedisLink {
  const settings: RedisSettings = {
    ...redis,
    monotonicMs,
    onCommand: metrics.observeRedis,
    onRefused: (command, cause) =>
      log.warn({ command, cause, consequence: consequences[command] }, 'redis refuses a command'),
    onTaken: (command) => log.info({ command }, 'redis takes a command again'),
  }
  const link = linkRedis(settings, handlers)
  metrics.watchRedisRefusals(link.isRefused)
  return link
}

const countIn =
  ({ use }: RedisLink): CountBy =>
  (run) =>
    use('count', run)

const checkAnswersOf = (directory: Directory, hasGrace: () => boolean) => async (): Promise<void> => {
  try {
    await directory.ping()
  } catch (error) {
    const cause = error instanceof GatewayError ? error.cause : undefined
    if (cause instanceof StandbyLagError || cause instanceof PoolerError) throw new PartError('failing', cause.message)
    if (isOutage(error) && hasGrace()) throw new PartError('limited', graceSentence)
    throw error
  }
}

const checkWritesOf = (directory: Directory, servers: Servers) => async (): Promise<void> => {
  // Whether it answers at all is another check's.
  await directory.ping().catch(() => undefined)
  if (servers.current()?.isStandby) throw new PartError('limited', standbySentence)
}

/** The consequence that an operator has to expect while a command is refused. */
const consequences: Readonly<Record<RefusableCommand, string>> = {
  get: 'heartbeats in redis are not seen',
  publish: 'other replicas hear of changes by postgres alone',
  count: 'rate limits are not counted: requests pass, or get 503 with onError: deny',
}

/** The consequence that an operator has to expect while a source is lost. */
const losses: Readonly<Record<ChangeSource['name'], Readonly<{ consequence: string }>>> = {
  postgres: { consequence: 'cache entries expire within a second' },
  redis: { consequence: Object.values(consequences).join('; ') },
}

const isReadOnly = (error: unknown): boolean => error instanceof GatewayError && error.code === 'directory_read_only'

/** Whether the store cannot be asked, or does not answer in time. */
const isOutage = (error: unknown): boolean =>
  error instanceof GatewayError &&
  error.code === 'directory_unavailable' &&
  ['connection', 'timeout'].includes(nameQueryFailure(error.cause) ?? '')

const graceSentence = 'PostgreSQL cannot be asked; what was known before answers for directory.graceMs'

const standbySentence =
  'PostgreSQL at database.url is a standby: what would change the directory, as minting and first logins, is refused with directory_read_only'

/** Says which kind of server answers, whenever that changes. */
function reportServer({ current }: Pick<Servers, 'current'>, log: ProcessLog): (server: Server) => void {
  let wasStandby = false
  return () => {
    const isStandby = current()?.isStandby === true
    if (isStandby === wasStandby) return
    wasStandby = isStandby
    if (isStandby) log.warn({}, standbySentence)
    else log.info({}, 'PostgreSQL at database.url is a primary again')
  }
}

/** Says each fault once, and when it is gone. */
function reportSchema(find: FindSchemaFault, log: ProcessLog): () => Promise<void> {
  let told: string | undefined
  return async () => {
    const fault = await find()
    if (fault?.cause !== told) {
      if (fault) log.error({ cause: fault.cause }, 'schema of the database is not as needed')
      else log.info({}, 'schema of the database is as needed again')
      told = fault?.cause
    }
    if (fault) throw new PartError(fault.state, fault.cause)
  }
}

const reportQueries =
  (metrics: Metrics): ObserveQuery =>
  (statement, ms, error) => {
    metrics.observeQuery(statement, ms)
    const failure = error === undefined ? undefined : nameQueryFailure(error)
    if (failure) metrics.countQueryFailure(failure)
  }
