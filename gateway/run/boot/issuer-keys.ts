import { readFile } from 'node:fs/promises'
import { guarded } from '../../base/fault/guarded.ts'
import type { Configuration } from '../../configuration/configuration.ts'
import { fetchThrough } from '../../http/outsiders.ts'
import { PartError } from '../../listeners/admin/readiness.ts'
import { describeError, type Log } from '../../observe/log/log.ts'
import { redact } from '../../observe/log/redact.ts'
import type { Metrics } from '../../observe/metrics/metrics.ts'
import type { IssuerRoute } from '../../stages/authenticate/ask-issuer.ts'
import type { Clock } from '../../stages/authenticate/clock.ts'
import { createKeyLoader } from '../../stages/authenticate/jwks/fetch.ts'
import { createKeySet } from '../../stages/authenticate/jwks/key-set.ts'
import type { KeyEvent } from '../../stages/authenticate/jwks/refresh.ts'
import type { KeyStore } from '../../stages/authenticate/jwks/store.ts'
import { createStartGrace, type StartGrace } from './start-grace.ts'

export type KeyDependencies = Readonly<{
  log: Pick<Log, 'info' | 'warn'>
  metrics: Pick<Metrics, 'watchJwksAge' | 'countJwksFetch'>
  now: Clock['now']
  monotonicMs: Clock['monotonicMs']
  keyStore: KeyStore
}>

type RouteSettings = Pick<Configuration['issuers'][number], 'tls' | 'proxy' | 'timeoutMs'>

type KeySettings = RouteSettings & Pick<Configuration['issuers'][number], 'issuer' | 'jwksUri' | 'insecure'>

export function createOpenKeys(
  { jwks }: Configuration,
  { log, metrics, now, monotonicMs, keyStore }: KeyDependencies,
  signal: AbortSignal,
) {
  const clock: Clock = { now, monotonicMs, after }
  const grace = createStartGrace(monotonicMs)
  const store = noteSuccesses(keyStore, grace)
  return (settings: KeySettings) => {
    const { issuer, jwksUri, insecure = false } = settings
    const report = createReport(issuer, log, metrics, grace)
    let failure: unknown
    const keys = createKeySet(createKeyLoader(issuer, jwksUri, { ...readRoute(settings), insecure }), {
      issuer,
      ...jwks,
      clock,
      store,
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

const noteSuccesses = ({ load, save }: KeyStore, { noteSuccess }: StartGrace): KeyStore => ({
  load: async (issuer) => {
    const found = await load(issuer)
    noteSuccess()
    return found
  },
  save: async (issuer, keys, fetchedAt) => {
    await save(issuer, keys, fetchedAt)
    noteSuccess()
  },
})

export const readRoute = ({ tls, proxy, timeoutMs }: RouteSettings): IssuerRoute => ({
  timeoutMs,
  through: async (work) => {
    const ca = tls?.ca.file === undefined ? tls?.ca.text : await readFile(tls.ca.file, 'utf8')
    return fetchThrough({ ca, proxy }, work)
  },
})

export type FirstKeys = Readonly<{
  issuer: string
  first: Promise<boolean>
  hasKeys: () => boolean
  failure: () => unknown
}>

/** A probe waits for a first fetch that is under way: a gateway that has just started answers for itself. */
const firstFetchMs = 500

/** Keys that were there once are enough: an issuer that fails later must not take every replica away. */
export function createRequireKeys(required: readonly FirstKeys[]): () => Promise<void> {
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

export const after: Clock['after'] = (ms, work) => {
  const timer = setTimeout(guarded('issuer', work), ms)
  timer.unref()
  return () => clearTimeout(timer)
}

function createReport(
  issuer: string,
  log: KeyDependencies['log'],
  metrics: KeyDependencies['metrics'],
  grace: StartGrace,
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
        // The connections of a start are not there yet, and the keys come from the issuer meanwhile.
        if (grace.isOver()) log.warn({ issuer, error: describeError(event.error) }, 'issuer key store failed')
        break
      default:
        event satisfies never
    }
  }
}
