import type { GatewayError } from '../../base/errors/gateway-error.ts'
import { createAttempts } from '../../base/lib/attempts.ts'
import type { Configuration } from '../../configuration/configuration.ts'
import { describeError, type Log } from '../../observe/log/log.ts'
import type { Metrics } from '../../observe/metrics/metrics.ts'
import type { IssuerRoute } from '../../stages/authenticate/ask-issuer.ts'
import type { Clock } from '../../stages/authenticate/clock.ts'
import { createIntrospect, type IntrospectionOutcome } from '../../stages/authenticate/introspection/introspect.ts'
import { createLane } from '../../stages/authenticate/introspection/lane.ts'
import { type AskAboutToken, createQuestion } from '../../stages/authenticate/introspection/question.ts'
import type { Introspect, Issuer } from '../../stages/authenticate/verify.ts'

export type IntrospectionDependencies = Readonly<{
  log: Pick<Log, 'info' | 'warn'>
  metrics: Pick<
    Metrics,
    'countIntrospection' | 'observeIntrospection' | 'watchIntrospections' | 'countCacheRead' | 'watchCacheSizes'
  >
  clock: Clock
  signal: AbortSignal
}>

export function openIntrospection(
  { cache, authentication }: Pick<Configuration, 'cache' | 'authentication'>,
  { issuer: name, introspection }: Configuration['issuers'][number],
  issuer: Issuer,
  through: IssuerRoute['through'],
  { log, metrics, clock, signal }: IntrospectionDependencies,
): Introspect | undefined {
  if (!introspection) return undefined
  const { endpoint, cacheMs, timeoutMs, maxInFlight, requireTokenType } = introspection
  const { monotonicMs } = clock
  const lane = createLane({ maxInFlight, timeoutMs, clock })
  const question = createQuestion({ issuer: name, endpoint, client: introspection, through, signal, monotonicMs })
  const ask: AskAboutToken = async (token, withinMs) => {
    const startedMs = monotonicMs()
    try {
      return await question(token, withinMs)
    } finally {
      metrics.observeIntrospection(monotonicMs() - startedMs)
    }
  }
  const report = createReport(name, log, monotonicMs)
  const { introspect, countHeld } = createIntrospect(issuer, {
    ask,
    lane,
    cacheMs,
    maxEntries: cache.maxEntries,
    requireTokenType,
    attempts: authentication.unknownTokens && createAttempts(authentication.unknownTokens, monotonicMs),
    clock,
    onRead: (result) => metrics.countCacheRead('introspections', result),
    onOutcome: (outcome, error) => {
      metrics.countIntrospection(name, outcome)
      report(outcome, error)
    },
  })
  metrics.watchCacheSizes(() => ({ introspections: countHeld() }))
  metrics.watchIntrospections(lane.countWaiting)
  return introspect
}

/** Each request fails while an issuer is down; the metric counts each. */
const warnEveryMs = 10_000

function createReport(issuer: string, log: IntrospectionDependencies['log'], monotonicMs: () => number) {
  let warnedAtMs = Number.NEGATIVE_INFINITY
  let failures = 0
  return (outcome: IntrospectionOutcome, error: GatewayError | undefined): void => {
    if (outcome !== 'failed' || error?.cause === undefined) return
    failures += 1
    if (monotonicMs() - warnedAtMs < warnEveryMs) return
    warnedAtMs = monotonicMs()
    log.warn({ issuer, failures, error: describeError(error.cause) }, 'issuer not asked about an opaque token')
    failures = 0
  }
}
