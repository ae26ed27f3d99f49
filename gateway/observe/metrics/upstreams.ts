import { Counter, Gauge, type Registry } from 'prom-client'
import type { RefusalCode } from '../../errors/gateway-error.ts'
import { createBoundHistogram, type ObserveMs } from './bound-histogram.ts'
import { createTallies, type FastCounters } from './fast-counter.ts'

/** How one upstream answers. */
export type UpstreamWatch = Readonly<{
  answered: (status: number, ms: number) => void
  failed: (outcome: RefusalCode | 'client_disconnected') => void
}>

export type UpstreamMetrics = Readonly<{
  /** The same for every call of one upstream. */
  watchUpstream: (name: string) => UpstreamWatch
  countUpstreamRetry: () => void
  /** Age of the oldest addresses in use whose name is not resolved, in milliseconds; asked at each scrape. */
  watchDns: (oldestStaleMs: () => number) => void
  /** How many connections are open, by scheme, host and port; asked at each scrape. */
  watchUpstreamConnections: (count: () => ReadonlyMap<string, number>, limit: number) => void
}>

const buckets = [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

/** By the first digit of a status. */
const classes = ['other', '1xx', '2xx', '3xx', '4xx', '5xx']

const expected = ['2xx', '4xx', '5xx', 'upstream_unavailable', 'upstream_timeout']

/** Clusters come and go, and must not multiply series: all of them are one upstream here. */
const clusterPrefix = 'cluster:'
const clusterLabel = 'cluster'

/** What the gateway sees of the backends behind it. */
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
    help: 'Requests sent once more, to the same address or another, because no byte of an answer had come.',
    registers,
  })
  let oldestStaleMs = () => 0
  new Gauge({
    name: 'sallyport_dns_stale_seconds',
    help: 'Age of the oldest addresses in use whose name is not resolved any more; 0 while all names are.',
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
  // What is asked for stands at 0 from the start: what appears with a 1 is no increase to Prometheus.
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

/** How upstreams are reached. */
export type AddressMetrics = Readonly<{
  /** `address` is host and port of the configuration. */
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
