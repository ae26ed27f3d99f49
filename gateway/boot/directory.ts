import { PartError, type ReadinessCheck } from '../admin/readiness.ts'
import type { KeyStore } from '../authenticate/jwks/store.ts'
import { type Configuration, requireDatabase } from '../configuration/configuration.ts'
import { describeFailure } from '../configuration/failure.ts'
import { createCachedDirectory } from '../directory/cache/cached-directory.ts'
import { createFreshness, type Freshness } from '../directory/cache/freshness.ts'
import { createGrace } from '../directory/cache/grace.ts'
import type { Change, ChangeHandlers, ChangeSource } from '../directory/change.ts'
import { type ClaimsPolicy, createClaimsDirectory } from '../directory/claims/directory.ts'
import type { Directory, DirectoryStore, KnownUser, ReadFacts } from '../directory/directory.ts'
import { guardLookups } from '../directory/lookups/guard-lookups.ts'
import { listenToPostgres } from '../directory/postgres/change-listener.ts'
import { type ClusterStore, createClusterStore } from '../directory/postgres/cluster-store.ts'
import { createPostgresDirectory, createReadFacts } from '../directory/postgres/directory.ts'
import { createIssuerKeyStore } from '../directory/postgres/issuer-keys.ts'
import { createPolicyTableStore, type PolicyTableStore } from '../directory/postgres/policy-tables.ts'
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
import { createSessionEndStore, type SessionEndStore } from '../directory/postgres/session-ends.ts'
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

export type OpenDirectory = Readonly<{
  directory: Directory<KnownUser>
  stores: Readonly<{
    policyTables: PolicyTableStore
    issuerKeys: KeyStore
    clusters: Pick<ClusterStore, 'list'>
    sessionEnds: Pick<SessionEndStore, 'readRecent'>
  }>
  rights: Readonly<{
    readFacts: ReadFacts
    knownAt: Freshness['knownAt']
    onChange: (listener: (change: Change) => void) => void
  }>
  parts: readonly ReadinessCheck[]
  readHeartbeat: ReadHeartbeat
  countBy: CountBy | undefined
  close: () => Promise<void>
}>

type DirectoryDependencies = Readonly<{ log: ProcessLog; metrics: Metrics; now: () => Date; monotonicMs: () => number }>

export function openDirectory(
  configuration: Configuration,
  policy: () => ClaimsPolicy,
  dependencies: DirectoryDependencies,
): OpenDirectory {
  const { kind } = configuration.directory
  switch (kind) {
    case 'postgres':
      return openStoredDirectory(configuration, dependencies)
    case 'claims':
      return openClaimsDirectory(configuration, policy, dependencies)
    default:
      return kind satisfies never
  }
}

function openClaimsDirectory(
  configuration: Configuration,
  policy: () => ClaimsPolicy,
  dependencies: DirectoryDependencies,
): OpenDirectory {
  const { directory, readFacts } = createClaimsDirectory(policy)
  const { handlersOf } = followChanges(() => undefined, createFreshness(dependencies.monotonicMs), dependencies)
  const redis = configuration.redis.url ? openRedis(configuration, handlersOf('redis', false), dependencies) : undefined
  return {
    directory,
    stores: {
      policyTables: { load: async () => undefined, save: async () => undefined },
      issuerKeys: { load: async () => undefined, save: async () => undefined },
      clusters: { list: async () => [] },
      sessionEnds: { readRecent: async () => [] },
    },
    // A JWT asserts the same until it expires, and a reload of the policy judges all open exchanges again.
    rights: { readFacts, knownAt: dependencies.monotonicMs, onChange: () => undefined },
    parts: [],
    readHeartbeat: noHeartbeat,
    countBy: redis && countIn(redis),
    close: async () => redis?.stop(),
  }
}

function openStoredDirectory(configuration: Configuration, dependencies: DirectoryDependencies): OpenDirectory {
  const { log, metrics, now, monotonicMs } = dependencies
  const freshness = createFreshness(monotonicMs)
  const servers = createServers({
    monotonicMs,
    isSplit: requireDatabase(configuration).listenUrl !== undefined,
    hearsElsewhere: configuration.redis.allWritersPublish,
    onForeign: freshness.restrict,
  })
  const { database, schema, hasGrace } = openPostgres(configuration, servers, dependencies)
  const tokenUses = collectTokenUses(database.query, (error) => {
    if (!isReadOnly(error)) warnOf(log, 'token uses not written yet')(error)
  })
  const store = createPostgresDirectory(database, {
    noteTokenUse: tokenUses.note,
    onLinked: (userId, issuer, arrival) => log.info({ userId, issuer, ...arrival }, 'identity linked'),
  })
  const guarded = guardUnknownTokens(configuration, store, database, dependencies)
  let redis: RedisLink | undefined
  const told = createListenerPlace<Change>()
  const cached = createCachedDirectory(guarded, {
    ...configuration.cache,
    freshness,
    grace: openGrace(configuration, dependencies),
    onRead: metrics.countCacheRead,
    announce: (change) => redis?.announce(change),
    onForgotten: told.tell,
  })
  metrics.watchCacheSizes(cached.sizes)
  const changes = followChanges(cached.forget, freshness, dependencies)
  const postgres = hearPostgres(configuration, servers, changes.handlersOf('postgres', true), dependencies)
  const hearsAll = configuration.redis.allWritersPublish
  if (configuration.redis.url) redis = openRedis(configuration, changes.handlersOf('redis', hearsAll), dependencies)
  const sources = [postgres, redis].filter((source) => source !== undefined)
  for (const source of sources) changes.watch(source)
  const { maxEntries } = configuration.cache
  const hears = redis && { read: redis.read, maxEntries, now, monotonicMs }
  const readHeartbeat = hears ? createReadHeartbeat(hears) : noHeartbeat
  const directory = redis ? withHeartbeats(cached.directory, readHeartbeat) : cached.directory
  const checkSchema = reportSchema(schema.find, log)
  // Logs at the start and primes the check for an outage. If the database is down, the next probe asks again.
  checkSchema().catch(() => undefined)
  return {
    directory,
    stores: openStores(database),
    rights: { readFacts: createReadFacts(database.query), knownAt: freshness.knownAt, onChange: told.listen },
    parts: [
      { name: 'database', check: checkAnswersOf(directory, hasGrace) },
      { name: 'schema', check: checkSchema },
      { name: 'writes', check: checkWritesOf(directory, servers) },
    ],
    readHeartbeat,
    countBy: redis && countIn(redis),
    close: async () => {
      tokenUses.stop()
      await tokenUses.flush().catch(warnOf(log, 'token uses lost'))
      await Promise.all([...sources.map((source) => source.stop()), database.close()])
    },
  }
}

const noHeartbeat: ReadHeartbeat = async () => undefined

const openStores = (database: Database): OpenDirectory['stores'] => ({
  policyTables: createPolicyTableStore(database.query),
  issuerKeys: createIssuerKeyStore(database.query),
  clusters: createClusterStore(database),
  sessionEnds: createSessionEndStore(database),
})

function createListenerPlace<News>() {
  let listener = (_: News): void => undefined
  return {
    tell: (news: News): void => listener(news),
    listen: (later: (news: News) => void): void => {
      listener = later
    },
  }
}

const warnOf = (log: ProcessLog, message: string) => (error: unknown) =>
  log.warn({ error: describeError(error) }, message)

type Postgres = Readonly<{ database: Database; schema: SchemaWatch; hasGrace: () => boolean }>

function openPostgres(
  configuration: Configuration,
  servers: Servers,
  { log, metrics, monotonicMs }: DirectoryDependencies,
): Postgres {
  const reportQuery = reportQueries(metrics)
  const noteServer = reportServer(servers, log)
  let answeredAtMs = Number.NEGATIVE_INFINITY
  const database = openDatabase(requireDatabase(configuration), warnOf(log, 'database connection lost'), {
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
    onUnnamedPooler: (error) => log.error({ error: describeError(error) }, 'connection pooler detected'),
  })
  const schema = watchSchema(createFindSchemaFault(database), monotonicMs)
  metrics.watchStandby(() => servers.current()?.isStandby, servers.lagMs)
  metrics.watchPool(database.countConnections, requireDatabase(configuration).poolSize)
  return { database, schema, hasGrace: () => monotonicMs() - answeredAtMs < configuration.directory.graceMs }
}

function guardUnknownTokens(
  configuration: Configuration,
  store: DirectoryStore,
  database: Database,
  { log, metrics, monotonicMs }: DirectoryDependencies,
): Directory {
  const logGuess = createGuessLog(log, monotonicMs)
  const guarded = guardLookups(store, {
    findHashes: createFindHashes(database.query),
    poolSize: requireDatabase(configuration).poolSize,
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
    onBegin: () => log.warn({ graceMs }, 'database unreachable; cached entries answer'),
    onEnd: (reads) => log.warn({ reads }, 'database answers again'),
  })

type FollowedChanges = Readonly<{
  /** `hearsAll`: this source reports every change, so its heartbeats prove that the caches are fresh. */
  handlersOf: (name: ChangeSource['name'], hearsAll: boolean) => ChangeHandlers
  watch: (source: Pick<ChangeSource, 'name' | 'isUp'>) => void
}>

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
        log.info({ source: name }, 'invalidation source connected; caches cleared')
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

function hearPostgres(
  configuration: Configuration,
  servers: Servers,
  handlers: ChangeHandlers,
  { log, metrics, monotonicMs }: DirectoryDependencies,
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
      log.warn({ command, cause, consequence: consequences[command] }, 'redis command refused'),
    onTaken: (command) => log.info({ command }, 'redis command accepted again'),
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
    if (!(error instanceof GatewayError)) throw error
    const { cause, code } = error
    if (cause instanceof StandbyLagError || cause instanceof PoolerError) throw new PartError('failing', cause.message)
    if (isOutage(error) && hasGrace()) throw new PartError('limited', graceSentence)
    if (code === 'directory_unavailable') throw new PartError('failing', describeFailure(error).message)
    throw error
  }
}

const checkWritesOf = (directory: Directory, servers: Servers) => async (): Promise<void> => {
  await directory.ping().catch(() => undefined)
  if (servers.current()?.isStandby) throw new PartError('limited', standbySentence)
}

const consequences: Readonly<Record<RefusableCommand, string>> = {
  get: 'heartbeats in redis are not read',
  publish: 'other replicas receive changes from postgres alone',
  count: 'rate limits are not counted, so requests pass, or get 503 with onError deny',
}

const losses: Readonly<Record<ChangeSource['name'], Readonly<{ consequence: string }>>> = {
  postgres: { consequence: 'cache entries expire within a second' },
  redis: { consequence: Object.values(consequences).join('; ') },
}

/** A standby is expected to refuse, and reportServer has logged it. */
const isReadOnly = (error: unknown): boolean => error instanceof GatewayError && error.code === 'directory_read_only'

const isOutage = (error: unknown): boolean =>
  error instanceof GatewayError &&
  error.code === 'directory_unavailable' &&
  ['connection', 'timeout'].includes(nameQueryFailure(error.cause) ?? '')

const graceSentence = 'PostgreSQL does not answer; cached entries answer for directory.graceMs'

const standbySentence =
  'PostgreSQL at database.url is a standby: requests that change the directory, such as minting and first logins, get directory_read_only'

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

function reportSchema(find: FindSchemaFault, log: ProcessLog): () => Promise<void> {
  let told: string | undefined
  return async () => {
    const fault = await find()
    if (fault?.cause !== told) {
      if (fault) log.error({ cause: fault.cause }, 'database schema check failed')
      else log.info({}, 'database schema check passed again')
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
