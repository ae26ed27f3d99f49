// Metrics for Prometheus: each file has those of one part, and metrics.ts joins them.
import { Registry } from 'prom-client'
import type { RefusalCause } from '../../base/errors/gateway-error.ts'
import { type AuditMetrics, createAuditMetrics } from '../audit/audit-metrics.ts'
import { type CacheMetrics, createCacheMetrics, createInvalidationMetrics, type InvalidationMetrics } from './cache.ts'
import type { MetricsSnapshot } from './combine.ts'
import { type ConnectionMetrics, createConnectionMetrics } from './connections.ts'
import { createDatabaseMetrics, type DatabaseMetrics } from './database.ts'
import {
  createJwksMetrics,
  createReloadMetrics,
  createTlsMetrics,
  type JwksMetrics,
  type ReloadMetrics,
  type TlsMetrics,
} from './keys.ts'
import { createLimitMetrics, type LimitMetrics } from './limit.ts'
import { createLogMetrics, type LogMetrics } from './log.ts'
import { createLogoutMetrics, type LogoutMetrics } from './logouts.ts'
import { createMeter, type Meter } from './meter.ts'
import {
  createDecisionPointMetrics,
  createIntrospectionMetrics,
  type DecisionPointMetrics,
  type IntrospectionMetrics,
} from './outside.ts'
import { createPolicyMetrics, type PolicyMetrics } from './policy.ts'
import {
  type BuildMetrics,
  collectProcessMetrics,
  createBuildMetrics,
  createFaultMetrics,
  type FaultMetrics,
} from './process.ts'
import { createRedisMetrics, type RedisMetrics } from './redis.ts'
import { createSecurityEventMetrics, type SecurityEventMetrics } from './security-events.ts'
import { createStageMetrics, type StageMetrics } from './stages.ts'
import { createStreamMetrics, type StreamMetrics } from './streams.ts'
import { type AddressMetrics, createAddressMetrics, createUpstreamMetrics, type UpstreamMetrics } from './upstreams.ts'

/** Labels are bounded: route ids and codes, never a client's path, user or text. */
export type Metrics = RequestMetrics &
  Readonly<{
    text: () => Promise<string>
    contentType: string
    snapshot: () => Promise<MetricsSnapshot>
  }> &
  AddressMetrics &
  AuditMetrics &
  BuildMetrics &
  CacheMetrics &
  IntrospectionMetrics &
  InvalidationMetrics &
  ConnectionMetrics &
  FaultMetrics &
  DatabaseMetrics &
  DecisionPointMetrics &
  JwksMetrics &
  LimitMetrics &
  LogMetrics &
  LogoutMetrics &
  PolicyMetrics &
  RedisMetrics &
  ReloadMetrics &
  SecurityEventMetrics &
  StageMetrics &
  StreamMetrics &
  TlsMetrics &
  UpstreamMetrics

type RequestMetrics = Readonly<{
  countRequest: (route: string, method: string, status: number, seconds: number) => void
  countDecision: (route: string, reason: string, cause: RefusalCause | 'none') => void
  countMalformed: (reason: string) => void
  watchInFlight: (count: () => number) => void
}>

/** To the ten minutes that a model has for its first byte; streams last longer. */
const durationBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]

export function createMetrics(): Metrics {
  const registry = new Registry()
  const meter = createMeter(registry)
  collectProcessMetrics(registry, meter)
  return {
    ...createRequestMetrics(meter),
    ...createAddressMetrics(meter),
    ...createAuditMetrics(meter),
    ...createBuildMetrics(meter),
    ...createCacheMetrics(meter),
    ...createIntrospectionMetrics(meter),
    ...createInvalidationMetrics(meter),
    ...createConnectionMetrics(meter),
    ...createDatabaseMetrics(meter),
    ...createDecisionPointMetrics(meter),
    ...createFaultMetrics(meter),
    ...createJwksMetrics(meter),
    ...createLimitMetrics(meter),
    ...createLogMetrics(meter),
    ...createLogoutMetrics(meter),
    ...createPolicyMetrics(meter),
    ...createRedisMetrics(meter),
    ...createReloadMetrics(meter),
    ...createSecurityEventMetrics(meter),
    ...createStageMetrics(meter),
    ...createStreamMetrics(meter),
    ...createUpstreamMetrics(meter),
    ...createTlsMetrics(meter),
    text: () => registry.metrics(),
    contentType: registry.contentType,
    snapshot: () => registry.getMetricsAsJSON(),
  }
}

function createRequestMetrics({ counter, count, histogram, watch }: Meter): RequestMetrics {
  const requests = counter(
    'sallyport_requests_total',
    'Requests, by route, method and status of the response; 0 if the client closed the connection first.',
    'route',
    'method',
    'status',
  )
  const durations = histogram(
    'sallyport_request_duration_seconds',
    'Duration of requests, from their headers to the end of the response.',
    durationBuckets,
  )
  const observeDuration = rememberByRoute((route) => durations.bind({ route }))
  const decisions = counter(
    'sallyport_decisions_total',
    'Decisions, by route, reason and cause; the reason is "allowed" or the code of the refusal, the cause is exact.',
    'route',
    'reason',
    'cause',
  )
  return {
    countRequest: (route, method, status, seconds) => {
      requests(route, method, status).count += 1
      observeDuration(route)(seconds * 1_000)
    },
    countDecision: (route, reason, cause) => {
      decisions(route, reason, cause).count += 1
    },
    countMalformed: count('sallyport_malformed_requests_total', 'Malformed requests, by reason.', 'reason'),
    watchInFlight: watch('sallyport_requests_in_flight', 'Requests in flight.'),
  }
}

function rememberByRoute<Made>(make: (route: string) => Made): (route: string) => Made {
  const known = new Map<string, Made>()
  return (route) => {
    let made = known.get(route)
    if (made === undefined) {
      made = make(route)
      known.set(route, made)
    }
    return made
  }
}
