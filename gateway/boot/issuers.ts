import { createKeyLoader } from '../authenticate/fetch-keys.ts'
import { createKeySet } from '../authenticate/jwks.ts'
import { createVerify, type VerifiedToken, type Verify, type VerifyOptions } from '../authenticate/verify.ts'
import { createBoundedMap } from '../directory/cache/bounded-map.ts'
import { describeError, type Log } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import { ConfigurationError } from '../policy/configuration-error.ts'
import type { Configuration } from './configuration.ts'

export type Issuers = Readonly<{ byName: VerifyOptions['issuers']; stop: () => void }>

type Surroundings = Readonly<{ log: Log; metrics: Metrics; monotonicMs: () => number }>

/** Two entries for one issuer would leave it open whose rules count. */
export function checkIssuers({ issuers }: Configuration, file: string): void {
  const names = issuers.map(({ issuer }) => issuer)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice === undefined) return
  throw new ConfigurationError([{ file, line: 1, column: 1, message: `issuers: ${twice} is listed twice` }])
}

/** Fetches every issuer's keys now and in the background; an issuer that is down does not keep us from starting. */
export function startIssuers(configuration: Configuration, { log, metrics, monotonicMs }: Surroundings): Issuers {
  const { refreshMs, maxStaleMs } = configuration.jwks
  const byName = new Map(
    configuration.issuers.map(({ issuer, audience, jwksUri, clockToleranceSeconds, linkVerifiedEmail }) => {
      const keys = createKeySet(createKeyLoader(issuer, jwksUri), {
        maxStaleMs,
        monotonicMs,
        onFailure: (error) => {
          metrics.countJwksFailure(issuer)
          log.warn({ issuer, error: describeError(error) }, 'keys could not be fetched; known keys go on')
        },
      })
      metrics.watchJwksAge(issuer, keys.ageMs)
      const audiences = typeof audience === 'string' ? [audience] : audience
      return [issuer, { trust: { issuer, audiences, clockToleranceSeconds, linkVerifiedEmail }, keys }] as const
    }),
  )
  const refresh = (): void => {
    for (const { keys } of byName.values()) void keys.refresh()
  }
  refresh()
  const timer = setInterval(refresh, refreshMs)
  timer.unref()
  return { byName, stop: () => clearInterval(timer) }
}

/** Verifies tokens by the issuers' keys, each token once for as long as the keys stay the same. */
export function rememberVerified(
  issuers: Issuers['byName'],
  { cache }: Configuration,
  metrics: Pick<Metrics, 'countCacheRead' | 'watchCacheSizes'>,
): Verify {
  const verified = createBoundedMap<VerifiedToken>(cache.maxEntries)
  metrics.watchCacheSizes(() => ({ verifications: verified.size() }))
  return createVerify({ issuers, verified, onRead: (result) => metrics.countCacheRead('verifications', result) })
}
