import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { streamFailureCodes } from '../errors/stream-failure.ts'
import { type AuditMetrics, createAuditMetrics } from './audit/audit-metrics.ts'
import { createBoundHistogram } from './bound-histogram.ts'
import { type BuildMetrics, createBuildMetrics } from './build-metrics.ts'
import { type ChangeMetrics, createChangeMetrics } from './change-metrics.ts'
import type { MetricsSnapshot } from './combine-metrics.ts'
import { type ConnectionMetrics, createConnectionMetrics } from './connection-metrics.ts'
import { createDatabaseMetrics, type DatabaseMetrics } from './database-metrics.ts'
import { createLimitMetrics, type LimitMetrics } from './limit-metrics.ts'
import { createPolicyMetrics, type PolicyMetrics } from './policy-metrics.ts'
import { createRedisMetrics, type RedisMetrics } from './redis-metrics.ts'
import { createStageMetrics, type StageMetrics } from './stage-metrics.ts'
import { createTallies } from './tally.ts'
import { createTlsMetrics, type TlsMetrics } from './tls-metrics.ts'
import { type AddressMetrics, createAddressMetrics } from './upstream-address-metrics.ts'
import { createUpstreamMetrics, type UpstreamMetrics } from './upstream-metrics.ts'

/** What is counted. Labels are bounded: route ids and codes of ours, never a path, user or text of a client. */
export type Metrics = Readonly<{
  countRequest: (route: string, method: string, status: number, seconds: number) => void
  countDecision: (route: string, reason: string) => void
  countUnparsed: (reason: string) => void
  countJwksFetch: (issuer: string, outcome: 'ok' | 'failed') => void
  /** `hit`, `absent`, `miss` or `shared`, for each cache by its name. */
  countCacheRead: (cache: string, result: string) => void
  watchCacheSizes: (sizes: () => Readonly<Record<string, number>>) => void
  noteKeysReload: (isGood: boolean) => void
  notePolicyReload: (isGood: boolean) => void
  notePolicyLoad: (at: Date) => void
  /** Calls back at each scrape. */
  watchJwksAge: (issuer: string, ageMs: () => number | undefined) => void
  watchInFlight: (count: () => number) => void
  watchStreams: (count: () => number) => void
  countStreamFailure: (code: string) => void
  watchWebSockets: (count: () => number) => void
  text: () => Promise<string>
  contentType: string
  /** The same as data, to be combined with that of other processes. */
  snapshot: () => Promise<MetricsSnapshot>
}> &
  AddressMetrics &
  AuditMetrics &
  BuildMetrics &
  ChangeMetrics &
  ConnectionMetrics &
  DatabaseMetrics &
  LimitMetrics &
  PolicyMetrics &
  RedisMetrics &
  StageMetrics &
  TlsMetrics &
  UpstreamMetrics

const durationBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

/** A registry of its own, so that two gateways in one process (in tests) do not share counts. */
export function createMetrics(): Metrics {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  const requests = createTallies(
    {
      name: 'sallyport_requests_total',
      help: 'Requests answered, by route, method and status; status 0 where the client left first.',
      labelNames: ['route', 'method', 'status'],
    },
    registers,
  )
  const durations = createBoundHistogram({
    name: 'sallyport_request_duration_seconds',
    help: 'Time from the head of a request to the end of its answer.',
    buckets: durationBuckets,
    registers,
  })
  const observeDuration = rememberByRoute((route) => durations.bind({ route }))
  const decisions = createTallies(
    {
      name: 'sallyport_decisions_total',
      help: 'Decisions, by route and reason; the reason is "allowed" or the code of the refusal.',
      labelNames: ['route', 'reason'],
    },
    registers,
  )
  const unparsed = new Counter({
    name: 'sallyport_unparsed_requests_total',
    help: 'Requests refused before they could be read, by reason.',
    labelNames: ['reason'],
    registers,
  })
  const jwksFailures = new Counter({
    name: 'sallyport_jwks_fetch_failures_total',
    help: 'Failed fetches of an issuer’s keys.',
    labelNames: ['issuer'],
    registers,
  })
  const jwksFetches = new Counter({
    name: 'sallyport_jwks_fetches_total',
    help: 'Fetches of an issuer’s keys that ended, by outcome: ok or failed.',
    labelNames: ['issuer', 'outcome'],
    registers,
  })
  const jwksIssuerUp = new Gauge({
    name: 'sallyport_jwks_issuer_up',
    help: 'Whether the last fetch of an issuer’s keys was good; absent before the first has ended.',
    labelNames: ['issuer'],
    registers,
  })
  const policyReload = new Gauge({
    name: 'sallyport_policy_reload_success',
    help: '0 while the policy files are no good and the last good table goes on.',
    registers,
  })
  const policyReloads = new Counter({
    name: 'sallyport_policy_reloads_total',
    help: 'Policy tables that were taken or refused, the one of the start included.',
    labelNames: ['outcome'],
    registers,
  })
  const policyLoaded = new Gauge({
    name: 'sallyport_policy_loaded_timestamp_seconds',
    help: 'When the table in force was loaded.',
    registers,
  })
  const keysReload = new Gauge({
    name: 'sallyport_identity_keys_reload_success',
    help: '1 while the identity header’s key files are those in use, 0 while a bad one is waiting.',
    registers,
  })
  keysReload.set(1)
  const issuers: [issuer: string, ageMs: () => number | undefined][] = []
  new Gauge({
    name: 'sallyport_jwks_age_seconds',
    help: 'Time since the last good fetch of the keys of an issuer that are in use; absent while there are none.',
    labelNames: ['issuer'],
    registers,
    collect() {
      for (const [issuer, ageMs] of issuers) {
        const age = ageMs()
        if (age !== undefined) this.set({ issuer }, age / 1000)
      }
    },
  })
  const cacheReads = createTallies(
    {
      name: 'sallyport_cache_reads_total',
      help: 'Reads of a cache, by result: hit, absent (known not to be there), miss, or shared with a load under way.',
      labelNames: ['cache', 'result'],
    },
    registers,
  )
  const cacheSizes: (() => Readonly<Record<string, number>>)[] = []
  new Gauge({
    name: 'sallyport_cache_entries',
    help: 'Entries held in a cache.',
    labelNames: ['cache'],
    registers,
    collect() {
      for (const sizes of cacheSizes) for (const [cache, size] of Object.entries(sizes())) this.set({ cache }, size)
    },
  })
  let inFlight = () => 0
  new Gauge({
    name: 'sallyport_requests_in_flight',
    help: 'Requests whose answer is not complete.',
    registers,
    collect() {
      this.set(inFlight())
    },
  })
  let streams = () => 0
  new Gauge({
    name: 'sallyport_streams_open',
    help: 'Event streams of the model surface that are open.',
    registers,
    collect() {
      this.set(streams())
    },
  })
  const streamFailures = new Counter({
    name: 'sallyport_streams_failed_total',
    help: 'Event streams that were ended with response.failed by the gateway, by x_service_error_code.',
    labelNames: ['code'],
    registers,
  })
  // What appears with a 1 is no increase to Prometheus.
  for (const code of streamFailureCodes) streamFailures.inc({ code }, 0)
  let webSockets = () => 0
  new Gauge({
    name: 'sallyport_websockets_open',
    help: 'WebSockets that are joined to their upstream.',
    registers,
    collect() {
      this.set(webSockets())
    },
  })
  return {
    countRequest: (route, method, status, seconds) => {
      requests(route, method, status).count += 1
      observeDuration(route)(seconds * 1_000)
    },
    countDecision: (route, reason) => {
      decisions(route, reason).count += 1
    },
    countUnparsed: (reason) => unparsed.inc({ reason }),
    countJwksFetch: (issuer, outcome) => {
      jwksFetches.inc({ issuer, outcome })
      jwksFailures.inc({ issuer }, outcome === 'failed' ? 1 : 0)
      jwksIssuerUp.set({ issuer }, outcome === 'ok' ? 1 : 0)
    },
    notePolicyReload: (isGood) => {
      policyReload.set(isGood ? 1 : 0)
      policyReloads.inc({ outcome: isGood ? 'ok' : 'failed' })
    },
    notePolicyLoad: (at) => policyLoaded.set(at.getTime() / 1_000),
    noteKeysReload: (isGood) => keysReload.set(isGood ? 1 : 0),
    watchJwksAge: (issuer, ageMs) => {
      issuers.push([issuer, ageMs])
    },
    countCacheRead: (cache, result) => {
      cacheReads(cache, result).count += 1
    },
    watchCacheSizes: (sizes) => {
      cacheSizes.push(sizes)
    },
    watchInFlight: (count) => {
      inFlight = count
    },
    watchStreams: (count) => {
      streams = count
    },
    countStreamFailure: (code) => streamFailures.inc({ code }),
    watchWebSockets: (count) => {
      webSockets = count
    },
    ...createAddressMetrics(registers),
    ...createAuditMetrics(registers),
    ...createBuildMetrics(registers),
    ...createChangeMetrics(registers),
    ...createConnectionMetrics(registers),
    ...createDatabaseMetrics(registers),
    ...createLimitMetrics(registers),
    ...createPolicyMetrics(registers),
    ...createRedisMetrics(registers),
    ...createStageMetrics(registers),
    ...createUpstreamMetrics(registers),
    ...createTlsMetrics(registers),
    text: () => registry.metrics(),
    contentType: registry.contentType,
    snapshot: () => registry.getMetricsAsJSON(),
  }
}

/** What is made once for each route. */
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
