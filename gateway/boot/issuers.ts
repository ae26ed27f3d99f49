import { readFile } from 'node:fs/promises'
import { PartError } from '../admin/readiness.ts'
import type { IssuerRoute } from '../authenticate/ask-issuer.ts'
import { type AudienceClaim, clientsOf, type RevocationTrust, type TrustedIssuer } from '../authenticate/claims.ts'
import type { Clock } from '../authenticate/clock.ts'
import type { Carriers, CredentialRules } from '../authenticate/credential.ts'
import { compileDirectoryRules } from '../authenticate/directory-rules.ts'
import { createKeyLoader } from '../authenticate/jwks/fetch.ts'
import { createKeySet, type KeySet } from '../authenticate/jwks/key-set.ts'
import type { KeyEvent } from '../authenticate/jwks/refresh.ts'
import type { KeyStore } from '../authenticate/jwks/store.ts'
import { parsePointer } from '../authenticate/pointer.ts'
import { mapScopes } from '../authenticate/scopes.ts'
import {
  createVerify,
  type Introspect,
  isOpaque,
  type VerifiedToken,
  type Verify,
  type VerifyOptions,
} from '../authenticate/verify.ts'
import type { Configuration } from '../configuration/configuration.ts'
import { guarded } from '../fault/guarded.ts'
import { fetchThrough } from '../http/tls/client.ts'
import { createBoundedMap } from '../lib/bounded-map.ts'
import { describeError, type Log } from '../observe/log/log.ts'
import { redact } from '../observe/log/redact.ts'
import type { Metrics } from '../observe/metrics/metrics.ts'
import { type IntrospectionDependencies, openIntrospection } from './introspection.ts'
import { listToldIssuers } from './transmitters.ts'

export type Issuers = Readonly<{
  byName: VerifyOptions['issuers']
  introspect: Introspect | undefined
  keysOf: (issuer: string) => KeySet | undefined
  carriers: Carriers
  requireKeys: () => Promise<void>
  stop: () => void
}>

type IssuerDependencies = Readonly<{
  log: Pick<Log, 'info' | 'warn'>
  metrics: Pick<Metrics, 'watchJwksAge' | 'countJwksFetch'> & IntrospectionDependencies['metrics']
  now: Clock['now']
  monotonicMs: Clock['monotonicMs']
  keyStore: KeyStore
}>

/** A proxy that only asks for decisions forwards the request itself, so no credential can be taken out of its lines. */
export const readCredentialRules = (
  { issuers, cors }: Pick<Configuration, 'issuers' | 'cors'>,
  carriers: Carriers,
): Readonly<Record<'public' | 'decision', CredentialRules>> => {
  const cookies = new Set(issuers.flatMap(({ tokens }) => tokens.cookie ?? []))
  const subprotocol = carriers.has('subprotocol')
  // `*` is any origin, and a cookie needs one that is named.
  const origins = new Set(cors?.origins.filter((origin) => origin !== '*'))
  const places = cookies.size > 0 || subprotocol ? { cookies, subprotocol } : undefined
  return { public: { carriers, origins, places }, decision: { carriers, origins, places: undefined } }
}

/**
 * Fetches every issuer's keys now and in the background. Neither an issuer nor a store that is down stops the start.
 */
export function startIssuers(configuration: Configuration, dependencies: IssuerDependencies): Issuers {
  const { log, metrics, now, monotonicMs } = dependencies
  const clock: Clock = { now, monotonicMs, after }
  const stopping = new AbortController()
  const { signal } = stopping
  const open = createOpenKeys(configuration, dependencies, signal)
  const told = listToldIssuers(configuration)
  const required: FirstKeys[] = []
  let introspect: Introspect | undefined
  const byName = new Map(
    configuration.issuers.map((settings) => {
      const { issuer } = settings
      const { keys, ...first } = open(settings)
      if (settings.required) required.push({ issuer, ...first })
      const made = { trust: readTrust(settings, told.has(issuer)), keys }
      const { through } = readRoute(settings)
      introspect ??= openIntrospection(configuration, settings, made, through, { log, metrics, clock, signal })
      return [issuer, made] as const
    }),
  )
  const others = new Map(
    configuration.transmitters
      .filter(({ issuer }) => !byName.has(issuer))
      .map((settings) => [settings.issuer, open(settings).keys]),
  )
  return {
    byName,
    introspect,
    keysOf: (issuer) => byName.get(issuer)?.keys ?? others.get(issuer),
    carriers: new Set([...byName.values()].flatMap(({ trust }) => [...trust.carriers])),
    requireKeys: createRequireKeys(required),
    stop: () => stopping.abort(),
  }
}

type KeySettings = Pick<IssuerSettings, 'issuer' | 'jwksUri' | 'tls' | 'proxy' | 'timeoutMs'>

function createOpenKeys(
  { jwks }: Configuration,
  { log, metrics, now, monotonicMs, keyStore }: IssuerDependencies,
  signal: AbortSignal,
) {
  const clock: Clock = { now, monotonicMs, after }
  return (settings: KeySettings) => {
    const { issuer, jwksUri } = settings
    const report = createReport(issuer, log, metrics)
    let failure: unknown
    const keys = createKeySet(createKeyLoader(issuer, jwksUri, readRoute(settings)), {
      issuer,
      ...jwks,
      clock,
      store: keyStore,
      onEvent: (event) => {
        report(event)
        if (event.kind === 'fetch-failed') failure = event.error
      },
      signal,
    })
    metrics.watchJwksAge(issuer, keys.ageMs)
    const first = keys.refresh()
    return { keys, first, hasKeys: () => keys.version() !== undefined, failure: () => failure }
  }
}

type IssuerSettings = Configuration['issuers'][number]

const readRoute = ({ tls, proxy, timeoutMs }: KeySettings): IssuerRoute => ({
  timeoutMs,
  through: async (work) => {
    const ca = tls?.ca.file === undefined ? tls?.ca.text : await readFile(tls.ca.file, 'utf8')
    return fetchThrough({ ca, proxy }, work)
  },
})

function readTrust(settings: IssuerSettings, isTold: boolean): TrustedIssuer {
  const { issuer, clockToleranceSeconds, linkVerifiedEmail, claims } = settings
  const { trustEmailVerified = linkVerifiedEmail, requireType } = settings
  return {
    issuer,
    ...readAudiences(settings.audience),
    carriers: listCarriers(settings.tokens),
    clockToleranceSeconds,
    linkVerifiedEmail,
    trustEmailVerified,
    ...(requireType && { requireType }),
    separateClients: separatesClients(settings),
    ...(settings.scopes && { findAbilities: mapScopes(settings.scopes) }),
    ...(isTold && { revocation: readRevocation(settings) }),
    ...(settings.directoryRules && { readGranted: compileDirectoryRules(issuer, settings.directoryRules) }),
    claims: {
      subject: parsePointer(claims.subject),
      email: parsePointer(claims.email),
      emailVerified: parsePointer(claims.emailVerified),
      names: claims.names.map(parsePointer),
      username: parsePointer(claims.username),
      sessionId: parsePointer(claims.sessionId),
    },
  }
}

function readRevocation({ logout, maxTokenLifeMs }: IssuerSettings): RevocationTrust {
  const longestLifeSeconds = maxTokenLifeMs / 1000
  if (!logout) return { longestLifeSeconds }
  const { audience, type } = logout
  const audiences = typeof audience === 'string' ? [audience] : audience
  return { longestLifeSeconds, logout: { audiences, types: type === 'JWT' ? ['logout+jwt', 'jwt'] : ['logout+jwt'] } }
}

function readAudiences(audience: IssuerSettings['audience']): Pick<TrustedIssuer, 'audiences' | 'audienceClaim'> {
  if (typeof audience === 'string') return { audiences: [audience] }
  if (isList(audience)) return { audiences: audience }
  const [[audienceClaim, values] = []] = Object.entries(audience) as [AudienceClaim, string | readonly string[]][]
  if (audienceClaim === undefined || values === undefined) throw new Error('an issuer has no audience')
  return { audiences: typeof values === 'string' ? [values] : values, audienceClaim }
}

/** With `aud` and `sub`, a client keeps the account that it has under its subject. Claims know no accounts. */
const separatesClients = ({ separateClients, audience, claims, directoryRules }: IssuerSettings): boolean =>
  separateClients ??
  (directoryRules !== undefined || claims.subject !== '/sub' || (typeof audience !== 'string' && !isList(audience)))

export const listIdentityIssuers = (issuers: Configuration['issuers']): ReadonlySet<string> =>
  new Set(
    issuers.flatMap((settings) =>
      separatesClients(settings) ? [settings.issuer, clientsOf(settings.issuer)] : [settings.issuer],
    ),
  )

const isList = (audience: object): audience is readonly string[] => Array.isArray(audience)

const listCarriers = (tokens: IssuerSettings['tokens']): Carriers =>
  new Set([
    ...(['header', 'bearer', 'subprotocol'] as const).filter((carrier) => tokens[carrier]),
    ...(tokens.cookie === undefined ? [] : [`cookie:${tokens.cookie}` as const]),
  ])

type FirstKeys = Readonly<{
  issuer: string
  first: Promise<boolean>
  hasKeys: () => boolean
  failure: () => unknown
}>

/** A probe waits for a first fetch that is under way: a gateway that has just started answers for itself. */
const firstFetchMs = 500

/** Keys that were there once are enough: an issuer that fails later must not take every replica away. */
function createRequireKeys(required: readonly FirstKeys[]): Issuers['requireKeys'] {
  let missing = required
  const look = (): void => {
    missing = missing.filter(({ hasKeys }) => !hasKeys())
  }
  return async () => {
    look()
    if (missing.length === 0) return
    const waited = new Promise((resolve) => after(firstFetchMs, () => resolve(undefined)))
    await Promise.race([Promise.all(missing.map(({ first }) => first)), waited])
    look()
    if (missing.length > 0) throw new PartError('failing', missing.map(describeMissing).join('; '))
  }
}

function describeMissing({ issuer, failure }: FirstKeys): string {
  const error = failure()
  const reason = error instanceof Error ? redact(error.message) : 'no usable key has come yet'
  return `${redact(issuer)} has given no keys: ${reason}`
}

const after: Clock['after'] = (ms, work) => {
  const timer = setTimeout(guarded('issuer', work), ms)
  timer.unref()
  return () => clearTimeout(timer)
}

function createReport(
  issuer: string,
  log: IssuerDependencies['log'],
  metrics: IssuerDependencies['metrics'],
): (event: KeyEvent) => void {
  let hasFailed = false
  return (event) => {
    switch (event.kind) {
      case 'fetched':
        metrics.countJwksFetch(issuer, 'ok')
        if (hasFailed) log.info({ issuer }, 'issuer keys fetched again')
        hasFailed = false
        break
      case 'fetch-failed':
        metrics.countJwksFetch(issuer, 'failed')
        log.warn({ issuer, error: describeError(event.error) }, 'issuer keys not fetched; known keys stay in use')
        hasFailed = true
        break
      case 'recalled':
        log.info({ issuer, ageMs: Math.round(event.ageMs) }, 'stored issuer keys in use until the issuer answers')
        break
      case 'store-failed':
        log.warn({ issuer, error: describeError(event.error) }, 'issuer key store failed')
        break
      default:
        event satisfies never
    }
  }
}

export function rememberVerified(
  { byName, introspect }: Pick<Issuers, 'byName' | 'introspect'>,
  { cache }: Configuration,
  metrics: Pick<Metrics, 'countCacheRead' | 'watchCacheSizes'>,
): Verify {
  const verified = createBoundedMap<VerifiedToken>(cache.maxEntries)
  metrics.watchCacheSizes(() => ({ verifications: verified.size() }))
  const onRead = (result: string): void => metrics.countCacheRead('verifications', result)
  return createVerify({ issuers: byName, verified, onRead, introspect })
}

const ignore = (): void => undefined

const noMetrics: IssuerDependencies['metrics'] = {
  watchJwksAge: ignore,
  countJwksFetch: ignore,
  countIntrospection: ignore,
  observeIntrospection: ignore,
  watchIntrospections: ignore,
  countCacheRead: ignore,
  watchCacheSizes: ignore,
}

export function createVerifier(configuration: Configuration) {
  const failures: string[] = []
  const { byName, introspect, carriers, stop } = startIssuers(configuration, {
    log: { info: () => undefined, warn: ({ error }) => failures.push(String(Object(error).message)) },
    metrics: noMetrics,
    now: () => new Date(),
    monotonicMs: () => performance.now(),
    keyStore: { load: async () => undefined, save: async () => undefined },
  })
  const verifyNow = createVerify({
    issuers: byName,
    verified: createBoundedMap<VerifiedToken>(1),
    onRead: () => undefined,
    introspect,
  })
  const isAsked = (token: string): boolean => introspect !== undefined && isOpaque(token)
  const verify: Verify = async (jwt, ...use) => {
    if (isAsked(jwt)) return verifyNow(jwt, ...use)
    await Promise.all([...byName.values()].map(({ keys }) => keys.refresh()))
    return verifyNow(jwt)
  }
  return { verify, isAsked, stop, carriers, failures: (): readonly string[] => failures }
}
