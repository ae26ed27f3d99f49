// The configuration file: read and checked once, before anything is opened.
import { readFileSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { packageRoot } from '../base/lib/package-root.ts'
import type { DatabaseSettings } from '../directory/postgres/pool.ts'
import type { RedisServers } from '../directory/redis/clients.ts'
import type { NetworkRules } from '../http/upstream/networks.ts'
import type { LogFormat, LogLevel } from '../observe/log/log.ts'
import { ConfigurationError, explainUnreadable } from '../policy/configuration-error.ts'
import { parseYaml, validateYaml, type YamlFile } from '../policy/document.ts'
import { compileSchema } from '../policy/schema.ts'
import type { HealthRules } from '../stages/forward/health-checks.ts'
import type { SigningAlgorithm } from '../stages/pin/signing-keys.ts'
import type { ExpiryRules } from '../stages/recheck/expiry.ts'
import { UsageError } from './failure.ts'
import { type Environment, interpolate } from './interpolate.ts'
import { type Pem, sourcePems } from './pem.ts'
import { readBasePath } from './upstream-addresses.ts'

export type Configuration = Readonly<{
  workers: number | 'auto'
  listeners: Readonly<{
    public: RequestListenerSettings
    decision: DecisionListenerSettings
    admin: ListenerSettings
    signals?: RequestListenerSettings
  }>
  database?: DatabaseSettings & Readonly<{ listenUrl?: string }>
  redis: RedisServers & Readonly<{ allWritersPublish: boolean }>
  cache: Readonly<{ maxEntries: number; ttlMs: number }>
  directory: Readonly<{ kind: 'postgres' | 'claims' | 'both'; graceMs: number }>
  authentication: Readonly<{ unknownTokens?: Readonly<{ perSecond: number; burst: number }> }>
  issuers: readonly Readonly<{
    issuer: string
    audience:
      | string
      | readonly string[]
      | Readonly<Partial<Record<'client_id' | 'azp' | 'scope', string | readonly string[]>>>
    tokens: Readonly<{
      header: boolean
      bearer: boolean
      cookie?: string
      headers?: readonly string[]
      origins?: readonly string[]
      subprotocol: boolean
    }>
    jwksUri?: string
    insecure?: boolean
    clockToleranceSeconds: number
    linkVerifiedEmail: boolean
    trustEmailVerified?: boolean
    requireType?: 'at+jwt'
    acceptIdTokens: boolean
    separateClients?: boolean
    scopes?: Readonly<Record<string, readonly string[]>>
    tls?: Readonly<{ ca: Pem }>
    proxy?: string
    timeoutMs: number
    claims: Readonly<{
      subject: string
      email: string
      emailVerified: string
      names: readonly string[]
      username: string
      sessionId: string
    }>
    introspection?: Readonly<{
      endpoint?: string
      clientId: string
      clientSecret: string
      authentication: 'basic' | 'post'
      cacheMs: number
      timeoutMs: number
      maxInFlight: number
      requireTokenType: boolean
    }>
    required: boolean
    maxTokenBytes: number
    maxTokenLifeMs: number
    logout?: Readonly<{ audience: string | readonly string[]; type: 'logout+jwt' | 'JWT'; heardElsewhere: boolean }>
    directoryRules?: readonly Readonly<{
      claim: string
      matches: string
      organization?: string
      organizationClaim?: string
      role?: string
      platformRole?: string
      userType?: 'client-managed'
    }>[]
  }>[]
  transmitters: readonly TransmitterSettings[]
  jwks: Readonly<{ refreshMs: number; maxStaleMs: number }>
  identity: Readonly<{
    issuer: string
    algorithm: SigningAlgorithm
    keys: readonly string[]
    keyFiles: readonly (string | undefined)[]
    publishOnPublicListener: boolean
  }>
  upstreams: Readonly<
    Record<
      string,
      Readonly<{
        urls: readonly string[]
        tls?: Readonly<{ ca?: Pem; cert?: Pem; key?: Pem; serverName?: string }>
        health?: HealthRules
        ejection: Readonly<{ failures: number; baseMs: number; maxMs: number; maxPercent: number }>
        credentials: 'strip' | 'forward'
        bind: boolean
        preserveHost: boolean
        passHeaders: readonly string[]
        passResponseHeaders: readonly string[]
        cookies: 'forward' | 'strip' | readonly string[]
        cache: 'private' | 'pass'
        isolate: 'none' | 'organization'
        headBytes?: number
      }>
    >
  >
  decisionPoints: Readonly<Record<string, DecisionPointSettings>>
  dns: Readonly<{ cacheMs: number; maxStaleMs: number }>
  policies: Readonly<{ directory: string; shadow?: string }>
  reload: Readonly<{ onWidening: 'allow' | 'hold' }>
  cluster: Readonly<{
    staleAfterMs: number
    networks: NetworkRules
    cookies: 'forward' | 'strip' | readonly string[]
    cache: 'private' | 'pass'
    headBytes?: number
  }>
  trustedProxies: readonly string[]
  secretFiles: readonly string[]
  cors?: Readonly<{ origins: readonly string[]; maxAgeSeconds: number; credentials: boolean }>
  limits: Readonly<{
    headerBytes: number
    targetBytes: number
    bodyBytes: number
    minBodyBytesPerSecond: number
    minResponseBytesPerSecond: number
    heldBytes?: number
    waitingPerOrganization?: number
  }>
  timeouts: Readonly<{
    handshakeMs: number
    headersMs: number
    bodyIdleMs: number
    clientIdleMs: number
    connectMs: number
    firstByteMs?: number
    idleMs: number
    streamIdleMs: number
    keepAliveMs: number
  }>
  streams: ExpiryRules
  drain: Readonly<{ delayMs: number; timeoutMs: number }>
  log: Readonly<{ level: LogLevel; format: LogFormat; bufferBytes: number }>
  audit: Readonly<{ sink: string; onFull: 'drop' | 'wait'; bufferBytes: number; waitMs: number; replica?: string }>
  problemAt: YamlFile['problemAt']
}>

export function requireDatabase({ database }: Pick<Configuration, 'database'>): NonNullable<Configuration['database']> {
  if (database) return database
  throw new UsageError(
    'this needs a database, and directory.kind is claims; set it to postgres or both, and database.url',
  )
}

export type TransmitterSettings = Readonly<{
  name: string
  issuer: string
  audience: string | readonly string[]
  speaksFor?: readonly string[]
  jwksUri?: string
  clockToleranceSeconds: number
  ignoreMembers: readonly string[]
  push?: Readonly<{ bearer: string | readonly string[] }>
  poll?: Readonly<{
    endpoint: string
    bearer: string
    maxEvents: number
    returnImmediately: boolean
    everyMs: number
    timeoutMs: number
  }>
  verification?: Readonly<{ endpoint: string; bearer: string; streamId: string; everyMs: number }>
  tls?: Readonly<{ ca: Pem }>
  proxy?: string
  timeoutMs: number
}>

export type DecisionPointSettings = Readonly<{
  url: string
  discover: boolean
  tls?: Readonly<{ ca: Pem }>
  headers: Readonly<Record<string, string>>
  deadlineMs: number
  cacheMs: number
  recheckMs: number
  maxInFlight: number
  maxInFlightPerOrganization: number
}>

export type ListenerSettings = Readonly<{ host: string; port: number; maxConnections?: number }>

export type RequestListenerSettings = ListenerSettings & Readonly<{ keepAliveMs?: number; tls?: ListenerTlsSettings }>

type DecisionListenerSettings = RequestListenerSettings &
  Readonly<{
    preflights?: 'refuse' | 'permit'
    authzen?: Readonly<{ url: string; subject: 'id' | 'username' }>
    evaluators?: readonly string[]
  }>

export type ListenerTlsSettings = Readonly<{
  cert: Pem
  key: Pem
  clientCa?: Pem
  clientCertificates?: 'optional' | 'required'
  minVersion: 'TLSv1.2' | 'TLSv1.3'
}>

const schemaFile = new URL('config/gateway.schema.json', packageRoot)

export function loadConfiguration(path: string, environment: Environment): Configuration {
  const file = parseYaml(path, readText(path))
  const files = interpolate(file, dirname(resolve(path)), environment)
  const written = validateYaml(file, compileSchema(schemaFile, { coerceTypes: true })) as Configuration
  const configuration = sourcePems(written, (path) => files.byNode.get(file.document.getIn(path, true)))
  const directory = resolve(dirname(path), configuration.policies.directory)
  checkDatabase(file, configuration)
  checkRedis(file, configuration.redis)
  const { shadow } = configuration.policies
  checkShadow(file, shadow && resolve(dirname(path), shadow))
  const keyFiles = configuration.identity.keys.map((_, index) =>
    files.byNode.get(file.document.getIn(['identity', 'keys', index], true)),
  )
  return Object.freeze({
    ...configuration,
    upstreams: listUrls(file, configuration.upstreams),
    identity: { ...configuration.identity, keyFiles },
    policies: { directory, ...(shadow && { shadow: resolve(dirname(path), shadow) }) },
    secretFiles: files.secrets,
    audit: { ...configuration.audit, sink: resolveSink(configuration.audit.sink, dirname(resolve(path))) },
    problemAt: file.problemAt,
  })
}

/** The driver reads both as URLs; without a host the server is named by the query. */
function checkDatabase(file: YamlFile, { database, directory }: Configuration): void {
  if (database && directory.kind === 'claims') {
    const message = 'database is not used where directory.kind is claims; remove the section'
    throw new ConfigurationError([file.problemAt(['database'], message)])
  }
  const problems = (['url', 'listenUrl'] as const)
    .filter((key) => !URL.canParse(database?.[key]?.replace('@/', '@localhost/') ?? 'postgres://localhost'))
    .map((key) => file.problemAt(['database', key], `database.${key} ${malformedUrl}`))
  if (problems.length > 0) throw new ConfigurationError(problems)
}

const malformedUrl =
  'cannot be read as a URL; in user and password write %40 for @, %3A for :, %2F for /, %23 for # and %25 for %'

/** A folder that is not there would compare nothing, and nothing would say so but a line of the log. */
function checkShadow(file: YamlFile, shadow: string | undefined): void {
  if (shadow === undefined || statSync(shadow, { throwIfNoEntry: false })?.isDirectory()) return
  const message = `policies.shadow is not a folder; create ${shadow}, or remove the key`
  throw new ConfigurationError([file.problemAt(['policies', 'shadow'], message)])
}

/** With several servers, Redis does not prove that a published message arrives everywhere. */
function checkRedis(file: YamlFile, { url, sentinels, cluster, allWritersPublish }: Configuration['redis']): void {
  const key = sentinels ? 'sentinels' : 'cluster'
  if (!sentinels && !cluster) return
  const problems = [
    ...(sentinels && cluster ? ['redis has sentinels and cluster; keep one of them'] : []),
    ...(url === '' ? [`redis.${key} needs redis.url too; set it for credentials and TLS`] : []),
    ...(allWritersPublish
      ? [`redis.allWritersPublish cannot be true with redis.${key}: messages may be lost between its servers`]
      : []),
  ]
  if (problems.length > 0)
    throw new ConfigurationError(problems.map((problem) => file.problemAt(['redis', key], problem)))
}

type Upstreams = Configuration['upstreams']

function listUrls(file: YamlFile, upstreams: Upstreams): Upstreams {
  const written = Object.entries(upstreams as Readonly<Record<string, Upstreams[string] & { url?: string }>>)
  const problems = written
    .filter(([, { url, urls }]) => url !== undefined && urls !== undefined)
    .map(([name]) =>
      file.problemAt(['upstreams', name, 'urls'], `upstreams.${name} has url and urls; keep one of them`),
    )
  for (const [name, { urls = [] }] of written)
    if (new Set(urls.map(readBasePath)).size > 1)
      problems.push(
        file.problemAt(['upstreams', name, 'urls'], `upstreams.${name}.urls differ in their path; give one to all`),
      )
  if (problems.length > 0) throw new ConfigurationError(problems)
  return Object.fromEntries(
    written.map(([name, { url, ...upstream }]) => [name, url === undefined ? upstream : { ...upstream, urls: [url] }]),
  )
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const message = `${explainUnreadable(error)}; name the configuration by --config`
    throw new ConfigurationError([{ file: path, message }])
  }
}

const resolveSink = (sink: string, directory: string): string =>
  ['stdout', 'stderr', 'off'].includes(sink) ? sink : resolve(directory, sink)
