import { Counter, Gauge, type Registry } from 'prom-client'
import type { RefusalCode } from '../../errors/gateway-error.ts'
import { createBoundHistogram, type ObserveMs } from './bound-histogram.ts'
import { createTallies, type FastCounters } from './fast-counter.ts'

export type UpstreamWatch = Readonly<{
  answered: (status: number, ms: number) => void
  failed: (outcome: RefusalCode | 'client_disconnected') => void
}>

export type UpstreamMetrics = Readonly<{
  watchUpstream: (name: string) => UpstreamWatch
  countUpstreamRetry: () => void
  watchDns: (oldestStaleMs: () => number) => void
  watchUpstreamConnections: (count: () => ReadonlyMap<string, number>, limit: number) => void
}>

const buckets = [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

const classes = ['other', '1xx', '2xx', '3xx', '4xx', '5xx']

const expected = ['2xx', '4xx', '5xx', 'upstream_unavailable', 'upstream_timeout']

/** Clusters come and go and must not multiply series, so all of them share one label. */
const clusterPrefix = 'cluster:'
const clusterLabel = 'cluster'

export function createUpstreamMetrics(registers: Registry[]): UpstreamMetrics {
  const requests = createTallies(
    {
      name: 'sallyport_upstream_requests_total',
      help: 'Requests sent to an upstream, by the class of its answer (2xx) or by the code of the failure.',
      labelNames: ['upstream', 'outcome'],
    },
    registers,
  )
  const firstByte = createBoundHistogram({
    name: 'sallyport_upstream_first_byte_seconds',
    help: 'Time from the moment a request is handed on until the head of the upstream’s answer is in.',
    buckets,
    registers,
  })
  const retries = new Counter({
    name: 'sallyport_upstream_retries_total',
    help: 'Requests sent again, to the same address or another, because no byte of a response had come.',
    registers,
  })
  let oldestStaleMs = () => 0
  new Gauge({
    name: 'sallyport_dns_stale_seconds',
    help: 'Age of the oldest addresses in use whose name no longer resolves; 0 while all names do.',
    registers,
    collect() {
      this.set(oldestStaleMs() / 1_000)
    },
  })
  const watches = new Map<string, UpstreamWatch>()
  const watch = (label: string): UpstreamWatch => {
    const known = watches.get(label)
    if (known) return known
    const made = createWatch(label, requests, firstByte.bind({ upstream: label }))
    watches.set(label, made)
    return made
  }
  return {
    watchUpstream: (name) => watches.get(name) ?? watch(name.startsWith(clusterPrefix) ? clusterLabel : name),
    countUpstreamRetry: () => retries.inc(),
    watchDns: (read) => {
      oldestStaleMs = read
    },
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

function createConnectionGauges(registers: Registry[]): UpstreamMetrics['watchUpstreamConnections'] {
  let read: () => ReadonlyMap<string, number> = () => new Map()
  new Gauge({
    name: 'sallyport_upstream_connections_open',
    help: 'Connections to upstreams that are open, busy or idle, without joined WebSockets.',
    labelNames: ['origin'],
    registers,
    collect() {
      this.reset()
      for (const [origin, count] of read()) this.set({ origin }, count)
    },
  })
  const limit = new Gauge({
    name: 'sallyport_upstream_connections_limit',
    help: 'Connections to upstreams that may be open at once.',
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
    help: '0 while an address of an upstream fails: by requests in a row, or by its health checks.',
    labelNames: ['upstream', 'address'],
    registers,
  })
  const reload = new Gauge({
    name: 'sallyport_upstream_tls_reload_success',
    help: '1 while the files of an upstream’s certificates are those in use, 0 while a bad one is waiting.',
    labelNames: ['upstream'],
    registers,
  })
  return {
    noteAddress: (upstream, address, isUp) => up.set({ upstream, address }, isUp ? 1 : 0),
    noteUpstreamTlsReload: (upstream, isGood) => reload.set({ upstream }, isGood ? 1 : 0),
  }
}
