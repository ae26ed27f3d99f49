import { GatewayError } from '../../base/errors/gateway-error.ts'
import { readNetwork } from '../../base/network/network.ts'
import { type Configuration, requireDatabase } from '../../configuration/configuration.ts'
import { createCachedDirectory } from '../../directory/cache/cached-directory.ts'
import { createFreshness, type Freshness } from '../../directory/cache/freshness.ts'
import { createGrace } from '../../directory/cache/grace.ts'
import type { Change } from '../../directory/change.ts'
import { type ClaimsPolicy, createClaimsDirectory } from '../../directory/claims/directory.ts'
import { createJoin, joinClaims, joinFacts } from '../../directory/claims/joined-directory.ts'
import type { Directory, DirectoryStore, KnownUser, ReadFacts } from '../../directory/directory.ts'
import { guardLookups } from '../../directory/lookups/guard-lookups.ts'
import { type ClusterStore, createClusterStore } from '../../directory/postgres/cluster-store.ts'
import { createPostgresDirectory, createReadFacts } from '../../directory/postgres/directory.ts'
import { createEventStreamStore, type EventStreamStore } from '../../directory/postgres/event-streams.ts'
import { createIssuerKeyStore } from '../../directory/postgres/issuer-keys.ts'
import { findLedgerFault } from '../../directory/postgres/ledger-fault.ts'
import { createLogoutStore, type LogoutStore } from '../../directory/postgres/logouts.ts'
import { createPolicyTableStore, type PolicyTableStore } from '../../directory/postgres/policy-tables.ts'
import { type Database, type ObserveQuery, openDatabase } from '../../directory/postgres/pool.ts'
import { nameQueryFailure } from '../../directory/postgres/query-failure.ts'
import { createFindSchemaFault, type SchemaWatch, watchSchema } from '../../directory/postgres/schema-fault.ts'
import { createServers, type Servers } from '../../directory/postgres/servers.ts'
import { createSessionEndStore, type SessionEndStore } from '../../directory/postgres/session-ends.ts'
import { createFindShared } from '../../directory/postgres/shared-organizations.ts'
import { createTokenLookups } from '../../directory/postgres/token-store.ts'
import { collectTokenUses } from '../../directory/postgres/token-uses.ts'
import { createReadHeartbeat, type ReadHeartbeat, withHeartbeats } from '../../directory/redis/heartbeats.ts'
import type { RedisLink } from '../../directory/redis/redis-link.ts'
import type { ReadinessCheck } from '../../listeners/admin/readiness.ts'
import { createGuessLog } from '../../observe/log/guess-log.ts'
import { describeError, type ProcessLog } from '../../observe/log/log.ts'
import type { Metrics } from '../../observe/metrics/metrics.ts'
import type { KeyStore } from '../../stages/authenticate/jwks/store.ts'
import type { CountBy } from '../../stages/limit/count-in-redis.ts'
import {
  checkAnswersOf,
  checkWritesOf,
  isOutage,
  type LedgerWatch,
  obeyLedger,
  reportSchema,
  reportServer,
  reportShared,
} from './directory-state.ts'
import { followChanges, hearPostgres, openRedis } from './hear-changes.ts'

export type OpenDirectory = Readonly<{
  directory: Directory<KnownUser>
  stores: Readonly<{
    policyTables: PolicyTableStore
    issuerKeys: KeyStore
    clusters: Pick<ClusterStore, 'list'>
    sessionEnds: Pick<SessionEndStore, 'readRecent'>
    logouts: LogoutStore | undefined
    eventStreams: EventStreamStore | undefined
  }>
  rights: Readonly<{
    readFacts: ReadFacts
    knownAt: Freshness['knownAt']
    onChange: (listener: (change: Change) => void) => void
  }>
  parts: readonly ReadinessCheck[]
  /** Throws if this program must not use the database. A database that does not answer lets a start go on. */
  requireUsable: () => Promise<void>
  announce: (change: Change) => void
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
    case 'both':
      return joinOrganizations(openStoredDirectory(configuration, dependencies), policy, dependencies)
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
      logouts: undefined,
      eventStreams: undefined,
    },
    // A JWT asserts the same until it expires, and a reload of the policy judges all open exchanges again.
    rights: { readFacts, knownAt: dependencies.monotonicMs, onChange: () => undefined },
    parts: [],
    requireUsable: async () => undefined,
    announce: () => undefined,
    readHeartbeat: noHeartbeat,
    countBy: redis && countIn(redis),
    close: async () => redis?.stop(),
  }
}

function joinOrganizations(
  { database, ...stored }: StoredDirectory,
  policy: () => ClaimsPolicy,
  { log, monotonicMs }: DirectoryDependencies,
): OpenDirectory {
  const join = createJoin(policy)
  const check = reportShared(watchSchema(createFindShared(database.query, policy), monotonicMs).find, log)
  return {
    ...stored,
    directory: joinClaims(stored.directory, join),
    rights: { ...stored.rights, readFacts: joinFacts(stored.rights.readFacts, join) },
    parts: [...stored.parts, { name: 'organizations', check }],
  }
}

type StoredDirectory = OpenDirectory & Readonly<{ directory: Directory; database: Database }>

function openStoredDirectory(configuration: Configuration, dependencies: DirectoryDependencies): StoredDirectory {
  const { log, metrics, now, monotonicMs } = dependencies
  const freshness = createFreshness(monotonicMs)
  const servers = createServers({
    monotonicMs,
    isSplit: requireDatabase(configuration).listenUrl !== undefined,
    hearsElsewhere: configuration.redis.allWritersPublish,
    onForeign: freshness.restrict,
  })
  const { database, schema, ledger, hasGrace } = openPostgres(configuration, servers, dependencies)
  const tokenUses = collectTokenUses(database.query, (error) => {
    if (!isReadOnly(error)) warnOf(log, 'token uses not written yet')(error)
  })
  const store = openStore(configuration, database, tokenUses, log)
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
  const hears = redis && { read: redis.read, maxEntries: configuration.cache.maxEntries, now, monotonicMs }
  const readHeartbeat = hears ? createReadHeartbeat(hears) : noHeartbeat
  const directory = redis ? withHeartbeats(cached.directory, readHeartbeat) : cached.directory
  const checkSchema = reportSchema(schema.find, log)
  // Logs at the start and primes the check for an outage. If the database is down, the next probe asks again.
  checkSchema().catch(() => undefined)
  return {
    directory,
    database,
    stores: openStores(database),
    rights: { readFacts: createReadFacts(database.query), knownAt: freshness.knownAt, onChange: told.listen },
    parts: [
      { name: 'database', check: checkAnswersOf(directory, hasGrace) },
      { name: 'schema', check: checkSchema },
      { name: 'writes', check: checkWritesOf(directory, servers) },
    ],
    requireUsable: ledger.requireUsable,
    announce: (change) => redis?.announce(change),
    readHeartbeat,
    countBy: redis && countIn(redis),
    close: async () => {
      ledger.stop()
      tokenUses.stop()
      await tokenUses.flush().catch(warnOf(log, 'token uses lost'))
      await Promise.all([...sources.map((source) => source.stop()), database.close()])
    },
  }
}

const openStore = (
  configuration: Configuration,
  database: Database,
  tokenUses: ReturnType<typeof collectTokenUses>,
  log: ProcessLog,
): DirectoryStore =>
  createPostgresDirectory(database, {
    noteTokenUse: tokenUses.note,
    onLinked: (userId, issuer, arrival) => log.info({ userId, issuer, ...arrival }, 'identity linked'),
    refusesRemoved: isJoined(configuration),
  })

const isJoined = ({ directory }: Configuration): boolean => directory.kind === 'both'

const noHeartbeat: ReadHeartbeat = async () => undefined

const openStores = (database: Database): OpenDirectory['stores'] => ({
  policyTables: createPolicyTableStore(database.query),
  issuerKeys: createIssuerKeyStore(database.query),
  clusters: createClusterStore(database),
  sessionEnds: createSessionEndStore(database),
  logouts: createLogoutStore(database.query),
  eventStreams: createEventStreamStore(database.query),
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

type Postgres = Readonly<{ database: Database; schema: SchemaWatch; ledger: LedgerWatch; hasGrace: () => boolean }>

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
  const schema = watchSchema(createFindSchemaFault(database, isJoined(configuration)), monotonicMs)
  metrics.watchStandby(() => servers.current()?.isStandby, servers.lagMs)
  metrics.watchPool(database.countConnections, requireDatabase(configuration).poolSize)
  const ledger = obeyLedger(() => findLedgerFault(database.query))
  return { database, schema, ledger, hasGrace: () => monotonicMs() - answeredAtMs < configuration.directory.graceMs }
}

function guardUnknownTokens(
  configuration: Configuration,
  store: DirectoryStore,
  database: Database,
  { log, metrics, monotonicMs }: DirectoryDependencies,
): Directory {
  const logGuess = createGuessLog(log, monotonicMs)
  const guarded = guardLookups(store, {
    ...createTokenLookups(database.query),
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

const countIn =
  ({ use }: RedisLink): CountBy =>
  (run) =>
    use('count', run)

/** A standby is expected to refuse, and reportServer has logged it. */
const isReadOnly = (error: unknown): boolean => error instanceof GatewayError && error.code === 'directory_read_only'

const reportQueries =
  (metrics: Metrics): ObserveQuery =>
  (statement, ms, error) => {
    metrics.observeQuery(statement, ms)
    const failure = error === undefined ? undefined : nameQueryFailure(error)
    if (failure) metrics.countQueryFailure(failure)
  }
