import { Counter, Gauge, type Registry } from 'prom-client'
import type { RefusalCode } from '../../errors/gateway-error.ts'
import { type Surplus, surplusKinds } from '../../http/engine.ts'
import { createBoundHistogram, type ObserveMs } from './bound-histogram.ts'
import { createTallies, type FastCounters } from './fast-counter.ts'

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

export function createUpstreamMetrics(registers: Registry[]): UpstreamMetrics {
  const requests = createTallies(
    {
      name: 'sallyport_upstream_requests_total',
      help: 'Requests sent to an upstream, by status class of the response (2xx) or by code of the failure.',
      labelNames: ['upstream', 'outcome'],
    },
    registers,
  )
  const firstByte = createBoundHistogram({
    name: 'sallyport_upstream_first_byte_seconds',
    help: 'Time from forwarding a request to the headers of the upstream’s response.',
    buckets,
    registers,
  })
  const retries = new Counter({
    name: 'sallyport_upstream_retries_total',
    help: 'Retries, to the same address or another, before any byte of a response.',
    registers,
  })
  const surplus = createSurplusMetrics(registers)
  let oldestStaleMs = () => 0
  new Gauge({
    name: 'sallyport_dns_stale_seconds',
    help: 'Age of the oldest stale DNS entry in use; 0 while all names resolve.',
    registers,
    collect() {
      this.set(oldestStaleMs() / 1_000)
    },
  })
  const watches = new Map<string, UpstreamWatch>()
  const watch = (label: string): UpstreamWatch => {
    const known = watches.get(label)
    if (known) return known
    surplus.begin(label)
    const made = createWatch(label, requests, firstByte.bind({ upstream: label }))
    watches.set(label, made)
    return made
  }
  return {
    watchUpstream: (name) => watches.get(name) ?? watch(labelOf(name)),
    countUpstreamRetry: () => retries.inc(),
    countSurplus: surplus.count,
    watchDistrustedOrigins: surplus.watch,
    watchDns: (read) => {
      oldestStaleMs = read
    },
    watchWaiting: createWaitingGauge(registers),
    watchUpstreamConnections: createConnectionGauges(registers),
  }
}

function createWatch(upstream: string, requests: FastCounters, observeMs: ObserveMs): UpstreamWatch {
  // Prometheus sees no increase in a series that first appears with 1.
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

function createSurplusMetrics(registers: Registry[]) {
  const surplus = new Counter({
    name: 'sallyport_upstream_surplus_total',
    help: 'Responses behind which the upstream sent more bytes, by the kind of response.',
    labelNames: ['upstream', 'kind'],
    registers,
  })
  let countOrigins = () => 0
  new Gauge({
    name: 'sallyport_upstream_origins_distrusted',
    help: 'Origins whose connections serve one request each, because they sent bytes beyond a response.',
    registers,
    collect() {
      this.set(countOrigins())
    },
  })
  return {
    // Prometheus sees no increase in a series that first appears with 1.
    begin: (upstream: string): void => {
      for (const kind of surplusKinds) surplus.inc({ upstream, kind }, 0)
    },
    count: (upstream: string, kind: Surplus['kind']): void => surplus.inc({ upstream: labelOf(upstream), kind }),
    watch: (count: () => number): void => {
      countOrigins = count
    },
  }
}

function createWaitingGauge(registers: Registry[]): UpstreamMetrics['watchWaiting'] {
  let readMost: () => ReadonlyMap<string, number> = () => new Map()
  new Gauge({
    name: 'sallyport_upstream_waiting_most',
    help: 'Requests of one organization that wait for the first byte of a model upstream, of the one with the most.',
    labelNames: ['upstream'],
    registers,
    collect() {
      this.reset()
      const most = new Map<string, number>()
      for (const [upstream, count] of readMost())
        most.set(labelOf(upstream), Math.max(count, most.get(labelOf(upstream)) ?? 0))
      for (const [upstream, count] of most) this.set({ upstream }, count)
    },
  })
  return (read) => {
    readMost = read
  }
}

function createConnectionGauges(registers: Registry[]): UpstreamMetrics['watchUpstreamConnections'] {
  let read: () => ReadonlyMap<string, number> = () => new Map()
  new Gauge({
    name: 'sallyport_upstream_connections_open',
    help: 'Open connections to upstreams, busy or idle, without WebSocket tunnels.',
    labelNames: ['origin'],
    registers,
    collect() {
      this.reset()
      for (const [origin, count] of read()) this.set({ origin }, count)
    },
  })
  const limit = new Gauge({
    name: 'sallyport_upstream_connections_limit',
    help: 'Limit of open connections to upstreams.',
    registers,
  })
  return (count, most) => {
    read = count
    limit.set(most)
  }
}

export type AddressMetrics = Readonly<{
  noteAddress: (upstream: string, address: string, isUp: boolean) => void
  noteUpstreamTlsReload: (upstream: string, isGood: boolean) => void
}>

export function createAddressMetrics(registers: Registry[]): AddressMetrics {
  const up = new Gauge({
    name: 'sallyport_upstream_address_up',
    help: 'Whether an upstream address is healthy; 0 while it is ejected or its health checks fail.',
    labelNames: ['upstream', 'address'],
    registers,
  })
  const reload = new Gauge({
    name: 'sallyport_upstream_tls_reload_success',
    help: 'Whether the last reload of an upstream’s certificates succeeded.',
    labelNames: ['upstream'],
    registers,
  })
  return {
    noteAddress: (upstream, address, isUp) => up.set({ upstream, address }, isUp ? 1 : 0),
    noteUpstreamTlsReload: (upstream, isGood) => reload.set({ upstream }, isGood ? 1 : 0),
  }
}
