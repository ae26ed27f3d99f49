import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { HealthRules } from '../forward/check-health.ts'
import type { LogFormat, LogLevel } from '../observe/log.ts'
import type { SigningAlgorithm } from '../pin/signing-keys.ts'
import { ConfigurationError } from '../policy/configuration-error.ts'
import { parseYaml, validateYaml, type YamlFile } from '../policy/document.ts'
import { compileSchema } from '../policy/schema.ts'
import { resolveSink } from './audit.ts'
import { type Environment, interpolate } from './interpolate.ts'
import { type Pem, sourcePems } from './pem.ts'

/** The configuration as checked by `config/gateway.schema.json`, defaults filled in. */
export type Configuration = Readonly<{
  workers: number | 'auto'
  engine: 'node' | 'wire'
  listeners: Readonly<{ public: DoorSettings; decision: DoorSettings; admin: ListenerSettings }>
  database: Readonly<{
    url: string
    listenUrl?: string
    poolSize: number
    connectTimeoutMs: number
    queryTimeoutMs: number
  }>
  redis: Readonly<{ url: string; hearsEveryWriter: boolean }>
  cache: Readonly<{ maxEntries: number; ttlMs: number }>
  issuers: readonly Readonly<{
    issuer: string
    audience: string | readonly string[]
    jwksUri?: string
    clockToleranceSeconds: number
    linkVerifiedEmail: boolean
  }>[]
  jwks: Readonly<{ refreshMs: number; maxStaleMs: number }>
  identity: Readonly<{
    issuer: string
    algorithm: SigningAlgorithm
    keys: readonly string[]
    /** Which file each key was read from; undefined where it came otherwise. */
    keyFiles: readonly (string | undefined)[]
    publishOnPublicListener: boolean
  }>
  upstreams: Readonly<
    Record<
      string,
      Readonly<{
        /** One or several, each of them the whole upstream. */
        urls: readonly string[]
        tls?: Readonly<{ ca?: Pem; cert?: Pem; key?: Pem; serverName?: string }>
        health?: HealthRules
        ejection: Readonly<{ failures: number; baseMs: number; maxMs: number; maxPercent: number }>
        credentials: 'strip' | 'forward'
        bind: boolean
        preserveHost: boolean
        passHeaders: readonly string[]
      }>
    >
  >
  dns: Readonly<{ cacheMs: number }>
  /** `shadow` is tried beside the other and never enforced. */
  policies: Readonly<{ directory: string; shadow?: string }>
  cluster: Readonly<{ staleAfterMs: number }>
  trustedProxies: readonly string[]
  cors?: Readonly<{ origins: readonly string[]; maxAgeSeconds: number; credentials: boolean }>
  limits: Readonly<{
    headerBytes: number
    targetBytes: number
    bodyBytes: number
    bodyBytesPerSecond: number
    answerBytesPerSecond: number
  }>
  timeouts: Readonly<{
    handshakeMs: number
    headersMs: number
    bodyIdleMs: number
    clientIdleMs: number
    connectMs: number
    firstByteMs: number
    idleMs: number
    streamIdleMs: number
    keepAliveMs: number
  }>
  drain: Readonly<{ delayMs: number; timeoutMs: number }>
  log: Readonly<{ level: LogLevel; format: LogFormat }>
  /** `sink` is `stdout`, `stderr`, `off` or an absolute path. */
  audit: Readonly<{ sink: string; onFull: 'drop' | 'wait'; bufferBytes: number; waitMs: number; replica?: string }>
}>

export type ListenerSettings = Readonly<{ host: string; port: number; maxConnections?: number }>

/** A listener that may be on TLS. */
export type DoorSettings = ListenerSettings & Readonly<{ tls?: DoorTls }>

export type DoorTls = Readonly<{
  cert: Pem
  key: Pem
  clientCa?: Pem
  clientCertificates?: 'optional' | 'required'
  minVersion: 'TLSv1.2' | 'TLSv1.3'
}>

const schemaFile = new URL('../../config/gateway.schema.json', import.meta.url)

/** Reads the configuration file; paths in it are relative to it. Throws `ConfigurationError`. */
export function loadConfiguration(path: string, environment: Environment): Configuration {
  const file = parseYaml(path, readText(path))
  const files = interpolate(file, dirname(resolve(path)), environment)
  // The schema has just held: its shape is the type's.
  const written = validateYaml(file, compileSchema(schemaFile, { coerceTypes: true })) as Configuration
  const configuration = sourcePems(written, (path) => files.get(file.document.getIn(path, true)))
  const directory = resolve(dirname(path), configuration.policies.directory)
  const { shadow } = configuration.policies
  const keyFiles = configuration.identity.keys.map((_, index) =>
    files.get(file.document.getIn(['identity', 'keys', index], true)),
  )
  return Object.freeze({
    ...configuration,
    upstreams: listUrls(file, configuration.upstreams),
    identity: { ...configuration.identity, keyFiles },
    policies: { directory, ...(shadow && { shadow: resolve(dirname(path), shadow) }) },
    audit: { ...configuration.audit, sink: resolveSink(configuration.audit.sink, dirname(resolve(path))) },
  })
}

type Upstreams = Configuration['upstreams']

/** An upstream has either `url` or `urls`; from here on it has a list. */
function listUrls(file: YamlFile, upstreams: Upstreams): Upstreams {
  const written = Object.entries(upstreams as Readonly<Record<string, Upstreams[string] & { url?: string }>>)
  const problems = written
    .filter(([, { url, urls }]) => url !== undefined && urls !== undefined)
    .map(([name]) =>
      file.problemAt(['upstreams', name, 'urls'], `upstreams.${name} has url and urls; keep one of them`),
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
    const message = `cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'unknown error'}`
    throw new ConfigurationError([{ file: path, line: 1, column: 1, message }])
  }
}
