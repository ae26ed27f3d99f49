import { Gauge, type Registry } from 'prom-client'
import type { RefusalCode } from '../errors/gateway-error.ts'
import { createBoundCounter } from './bound-counter.ts'
import { createBoundHistogram, type ObserveMs } from './bound-histogram.ts'

/** How one upstream answers. */
export type UpstreamWatch = Readonly<{
  answered: (status: number, ms: number) => void
  failed: (outcome: RefusalCode | 'client_left') => void
}>

export type UpstreamMetrics = Readonly<{
  /** The same for every call of one upstream. */
  watchUpstream: (name: string) => UpstreamWatch
  countUpstreamRetry: () => void
  /** How many connections are open, by scheme, host and port; asked at each scrape. */
  watchUpstreamConnections: (count: () => ReadonlyMap<string, number>, limit: number) => void
}>

const buckets = [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

const expected = ['upstream_unavailable', 'upstream_timeout'] as const

/** Clusters come and go, and must not multiply series: all of them are one upstream here. */
const clusterPrefix = 'cluster:'
const clusterLabel = 'cluster'

/** What the gateway sees of the backends behind it. */
export function createUpstreamMetrics(registers: Registry[]): UpstreamMetrics {
  const requests = createBoundCounter({
    name: 'sallyport_upstream_requests_total',
    help: 'Requests sent to an upstream, by the class of its answer (2xx) or by the code of the failure.',
    registers,
  })
  const firstByte = createBoundHistogram({
    name: 'sallyport_upstream_first_byte_seconds',
    help: 'Time from the moment a request is handed on until the head of the upstream’s answer is in.',
    buckets,
    registers,
  })
  const retries = createBoundCounter({
    name: 'sallyport_upstream_retries_total',
    help: 'Requests sent once more because a kept connection had closed before a byte of an answer.',
    registers,
  })
  const watches = new Map<string, UpstreamWatch>()
  const watch = (label: string): UpstreamWatch => {
    const known = watches.get(label)
    if (known) return known
    const made = createWatch(label, requests.bind, firstByte.bind({ upstream: label }))
    watches.set(label, made)
    return made
  }
  return {
    watchUpstream: (name) => watches.get(name) ?? watch(name.startsWith(clusterPrefix) ? clusterLabel : name),
    countUpstreamRetry: retries.bind({}),
    watchUpstreamConnections: createConnectionGauges(registers),
  }
}

function createWatch(
  upstream: string,
  bind: (labels: Readonly<Record<string, string>>) => () => void,
  observeMs: ObserveMs,
): UpstreamWatch {
  // Those that are asked for stand at 0 from the start: what appears with a 1 is no increase to Prometheus.
  const counts = new Map<string | number, () => void>([
    ...[2, 4, 5].map((digit) => [digit, bind({ upstream, outcome: `${digit}xx` })] as const),
    ...expected.map((outcome) => [outcome, bind({ upstream, outcome })] as const),
  ])
  const count = (key: string | number, outcome: string): void => {
    let add = counts.get(key)
    if (!add) {
      add = bind({ upstream, outcome })
      counts.set(key, add)
    }
    add()
  }
  return {
    answered: (status, ms) => {
      const firstDigit = Math.trunc(status / 100)
      count(firstDigit, `${firstDigit}xx`)
      observeMs(ms)
    },
    failed: (outcome) => count(outcome, outcome),
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
