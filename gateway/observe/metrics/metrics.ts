import { Counter, Gauge, Registry } from 'prom-client'
import type { RefusalCause } from '../../errors/gateway-error.ts'
import { type AuditMetrics, createAuditMetrics } from '../audit/audit-metrics.ts'
import { createBoundHistogram } from './bound-histogram.ts'
import { type CacheMetrics, createCacheMetrics } from './cache.ts'
import type { MetricsSnapshot } from './combine.ts'
import { type ConnectionMetrics, createConnectionMetrics } from './connections.ts'
import { createDatabaseMetrics, type DatabaseMetrics } from './database.ts'
import { createDecisionPointMetrics, type DecisionPointMetrics } from './decision-points.ts'
import { createTallies } from './fast-counter.ts'
import { createIntrospectionMetrics, type IntrospectionMetrics } from './introspection.ts'
import { createInvalidationMetrics, type InvalidationMetrics } from './invalidations.ts'
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
  const registers = [registry]
  collectProcessMetrics(registry)
  return {
    ...createRequestMetrics(registers),
    ...createAddressMetrics(registers),
    ...createAuditMetrics(registers),
    ...createBuildMetrics(registers),
    ...createCacheMetrics(registers),
    ...createIntrospectionMetrics(registers),
    ...createInvalidationMetrics(registers),
    ...createConnectionMetrics(registers),
    ...createDatabaseMetrics(registers),
    ...createDecisionPointMetrics(registers),
    ...createFaultMetrics(registers),
    ...createJwksMetrics(registers),
    ...createLimitMetrics(registers),
    ...createLogMetrics(registers),
    ...createLogoutMetrics(registers),
    ...createPolicyMetrics(registers),
    ...createRedisMetrics(registers),
    ...createReloadMetrics(registers),
    ...createSecurityEventMetrics(registers),
    ...createStageMetrics(registers),
    ...createStreamMetrics(registers),
    ...createUpstreamMetrics(registers),
    ...createTlsMetrics(registers),
    text: () => registry.metrics(),
    contentType: registry.contentType,
    snapshot: () => registry.getMetricsAsJSON(),
  }
}

function createRequestMetrics(registers: Registry[]): RequestMetrics {
  const requests = createTallies(
    {
      name: 'sallyport_requests_total',
      help: 'Requests, by route, method and status of the response; 0 if the client closed the connection first.',
      labelNames: ['route', 'method', 'status'],
    },
    registers,
  )
  const durations = createBoundHistogram({
    name: 'sallyport_request_duration_seconds',
    help: 'Duration of requests, from their headers to the end of the response.',
    buckets: durationBuckets,
    registers,
  })
  const observeDuration = rememberByRoute((route) => durations.bind({ route }))
  const decisions = createTallies(
    {
      name: 'sallyport_decisions_total',
      help: 'Decisions, by route, reason and cause; the reason is "allowed" or the code of the refusal, the cause is exact.',
      labelNames: ['route', 'reason', 'cause'],
    },
    registers,
  )
  const malformed = new Counter({
    name: 'sallyport_malformed_requests_total',
    help: 'Malformed requests, by reason.',
    labelNames: ['reason'],
    registers,
  })
  let inFlight = () => 0
  new Gauge({
    name: 'sallyport_requests_in_flight',
    help: 'Requests in flight.',
    registers,
    collect() {
      this.set(inFlight())
    },
  })
  return {
    countRequest: (route, method, status, seconds) => {
      requests(route, method, status).count += 1
      observeDuration(route)(seconds * 1_000)
    },
    countDecision: (route, reason, cause) => {
      decisions(route, reason, cause).count += 1
    },
    countMalformed: (reason) => malformed.inc({ reason }),
    watchInFlight: (count) => {
      inFlight = count
    },
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
