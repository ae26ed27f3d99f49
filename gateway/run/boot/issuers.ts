import { setMaxListeners } from 'node:events'
import { createBoundedMap } from '../../base/lib/bounded-map.ts'
import type { Configuration } from '../../configuration/configuration.ts'
import type { Metrics } from '../../observe/metrics/metrics.ts'
import type { Clock } from '../../stages/authenticate/clock.ts'
import type { Carriers } from '../../stages/authenticate/credential.ts'
import type { KeySet } from '../../stages/authenticate/jwks/key-set.ts'
import {
  createVerify,
  type Introspect,
  isOpaque,
  type VerifiedToken,
  type Verify,
  type VerifyOptions,
} from '../../stages/authenticate/verify.ts'
import { type IntrospectionDependencies, openIntrospection } from './introspection.ts'
import {
  after,
  createOpenKeys,
  createRequireKeys,
  type FirstKeys,
  type KeyDependencies,
  readRoute,
} from './issuer-keys.ts'
import { readTrust } from './issuer-trust.ts'
import { listToldIssuers } from './transmitters.ts'

export type Issuers = Readonly<{
  byName: VerifyOptions['issuers']
  introspect: Introspect | undefined
  keysOf: (issuer: string) => KeySet | undefined
  carriers: Carriers
  requireKeys: () => Promise<void>
  stop: () => void
}>

type IssuerDependencies = KeyDependencies & Readonly<{ metrics: IntrospectionDependencies['metrics'] }>

/**
 * Fetches every issuer's keys now and in the background. Neither an issuer nor a store that is down stops the start.
 */
export function startIssuers(configuration: Configuration, dependencies: IssuerDependencies): Issuers {
  const { log, metrics, now, monotonicMs } = dependencies
  const clock: Clock = { now, monotonicMs, after }
  const stopping = new AbortController()
  const { signal } = stopping
  // Every issuer listens to it, and every lookup of a token that is under way.
  setMaxListeners(0, signal)
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

export function rememberVerified(
  { byName, introspect }: Pick<Issuers, 'byName' | 'introspect'>,
  { cache }: Configuration,
  metrics: Pick<Metrics, 'countCacheRead' | 'watchCacheSizes'>,
): Verify {
  const verified = createBoundedMap<VerifiedToken>(cache.maxEntries, weighToken)
  metrics.watchCacheSizes(() => ({ verifications: verified.size() }))
  const onRead = (result: string): void => metrics.countCacheRead('verifications', result)
  return createVerify({ issuers: byName, verified, onRead, introspect })
}

/** An estimate: 32 memberships take about as much memory as the rest of an entry. Without rules, each token counts once. */
const weighToken = ({ claims }: VerifiedToken): number =>
  1 + Math.floor((claims.assertions?.memberships.length ?? 0) / 32)

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
