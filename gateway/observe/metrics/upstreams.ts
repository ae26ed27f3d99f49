import type { RefusalCode } from '../../base/errors/gateway-error.ts'
import { type Surplus, surplusKinds } from '../../http/engine.ts'
import type { ObserveMs } from './bound-histogram.ts'
import type { FastCounters } from './fast-counter.ts'
import type { Meter } from './meter.ts'

export type UpstreamWatch = Readonly<{
  answered: (status: number, ms: number) => void
  failed: (outcome: RefusalCode | 'client_disconnected') => void
}>

export type UpstreamMetrics = Readonly<{
  watchUpstream: (name: string) => UpstreamWatch
  countUpstreamRetry: () => void
  countSurplus: (upstream: string, kind: Surplus['kind']) => void
  watchDistrustedOrigins: (count: () => number) => void
  watchDns: (oldestStaleMs: () => number) => void
  /** Requests of the organization that has the most of them, by upstream. */
  watchWaiting: (readMost: () => ReadonlyMap<string, number>) => void
  watchUpstreamConnections: (count: () => ReadonlyMap<string, number>, limit: number) => void
}>

/** To the ten minutes that a model has for its first byte. */
const buckets = [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]

const classes = ['other', '1xx', '2xx', '3xx', '4xx', '5xx']

const expected = ['2xx', '4xx', '5xx', 'upstream_unavailable', 'upstream_timeout']

/** Clusters come and go and must not multiply series, so all of them share one label. */
const clusterPrefix = 'cluster:'
const clusterLabel = 'cluster'

const labelOf = (upstream: string): string => (upstream.startsWith(clusterPrefix) ? clusterLabel : upstream)

export function createUpstreamMetrics(meter: Meter): UpstreamMetrics {
  const requests = meter.counter(
    'sallyport_upstream_requests_total',
    'Requests sent to an upstream, by status class of the response (2xx) or by code of the failure.',
    'upstream',
    'outcome',
  )
  const firstByte = meter.histogram(
    'sallyport_upstream_first_byte_seconds',
    'Time from forwarding a request to the headers of the upstream’s response.',
    buckets,
  )
  const countUpstreamRetry = meter.count(
    'sallyport_upstream_retries_total',
    'Retries, to the same address or another, before any byte of a response.',
  )
  const surplus = meter.counter(
    'sallyport_upstream_surplus_total',
    'Responses behind which the upstream sent more bytes, by the kind of response.',
    'upstream',
    'kind',
  )
  const watchDistrustedOrigins = meter.watch(
    'sallyport_upstream_origins_distrusted',
    'Origins whose connections serve one request each, because they sent bytes beyond a response.',
  )
  const watchStaleDns = meter.watch(
    'sallyport_dns_stale_seconds',
    'Age of the oldest stale DNS entry in use; 0 while all names resolve.',
  )
  const watches = new Map<string, UpstreamWatch>()
  const watch = (label: string): UpstreamWatch => {
    const known = watches.get(label)
    if (known) return known
    for (const kind of surplusKinds) surplus(label, kind)
    const made = createWatch(label, requests, firstByte.bind({ upstream: label }))
    watches.set(label, made)
    return made
  }
  return {
    watchUpstream: (name) => watches.get(name) ?? watch(labelOf(name)),
    countUpstreamRetry,
    countSurplus: (upstream, kind) => {
      surplus(labelOf(upstream), kind).count += 1
    },
    watchDistrustedOrigins,
    watchDns: (oldestStaleMs) => watchStaleDns(() => oldestStaleMs() / 1_000),
    watchWaiting: createWaitingGauge(meter),
    watchUpstreamConnections: createConnectionGauges(meter),
  }
}

type CountedByOutcome = FastCounters<readonly [upstream: string, outcome: string]>

function createWatch(upstream: string, requests: CountedByOutcome, observeMs: ObserveMs): UpstreamWatch {
  for (const outcome of expected) requests(upstream, outcome)
  return {
    answered: (status, ms) => {
      requests(upstream, classes[Math.trunc(status / 100)] ?? 'other').count += 1
      observeMs(ms)
    },
    failed: (outcome) => {
      requests(upstream, outcome).count += 1
    },
  }
}

function createWaitingGauge({ collect }: Meter): UpstreamMetrics['watchWaiting'] {
  let readMost: () => ReadonlyMap<string, number> = () => new Map()
  collect(
    'sallyport_upstream_waiting_most',
    'Requests of one organization that wait for the first byte of a model upstream, of the one with the most.',
    ['upstream'],
    (gauge) => {
      gauge.reset()
      const most = new Map<string, number>()
      for (const [upstream, count] of readMost())
        most.set(labelOf(upstream), Math.max(count, most.get(labelOf(upstream)) ?? 0))
      for (const [upstream, count] of most) gauge.set({ upstream }, count)
    },
  )
  return (read) => {
    readMost = read
  }
}

function createConnectionGauges({ collect, gauge }: Meter): UpstreamMetrics['watchUpstreamConnections'] {
  let read: () => ReadonlyMap<string, number> = () => new Map()
  collect(
    'sallyport_upstream_connections_open',
    'Open connections to upstreams, busy or idle, without WebSocket tunnels.',
    ['origin'],
    (connections) => {
      connections.reset()
      for (const [origin, count] of read()) connections.set({ origin }, count)
    },
  )
  const limit = gauge('sallyport_upstream_connections_limit', 'Limit of open connections to upstreams.')
  return (count, most) => {
    read = count
    limit.set(most)
  }
}

export type AddressMetrics = Readonly<{
  noteAddress: (upstream: string, address: string, isUp: boolean) => void
  noteUpstreamTlsReload: (upstream: string, isGood: boolean) => void
}>

export const createAddressMetrics = ({ flag }: Meter): AddressMetrics => ({
  noteAddress: flag(
    'sallyport_upstream_address_up',
    'Whether an upstream address is healthy; 0 while it is ejected or its health checks fail.',
    'upstream',
    'address',
  ),
  noteUpstreamTlsReload: flag(
    'sallyport_upstream_tls_reload_success',
    'Whether the last reload of an upstream’s certificates succeeded.',
    'upstream',
  ),
})
