import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { LogFormat, LogLevel } from '../observe/log.ts'
import type { SigningAlgorithm } from '../pin/signing-keys.ts'
import { ConfigurationError } from '../policy/configuration-error.ts'
import { parseYaml, validateYaml } from '../policy/document.ts'
import { compileSchema } from '../policy/load.ts'
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
        url: string
        credentials: 'strip' | 'forward'
        bind: boolean
        preserveHost: boolean
        passHeaders: readonly string[]
      }>
    >
  >
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
    identity: { ...configuration.identity, keyFiles },
    policies: { directory, ...(shadow && { shadow: resolve(dirname(path), shadow) }) },
    audit: { ...configuration.audit, sink: resolveSink(configuration.audit.sink, dirname(resolve(path))) },
  })
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const message = `cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'unknown error'}`
    throw new ConfigurationError([{ file: path, line: 1, column: 1, message }])
  }
}
