import { Counter, Gauge, type Registry } from 'prom-client'

/** How full the listeners are. */
export type ConnectionMetrics = Readonly<{
  countDroppedConnection: (listener: string, reason: string) => void
  /** How many are open, asked at each scrape, and how many may be. */
  watchConnections: (listener: string, count: () => number, limit: number) => void
}>

/** By listener: `public`, `decision`, `admin`. */
export function createConnectionMetrics(registers: Registry[]): ConnectionMetrics {
  const dropped = new Counter({
    name: 'sallyport_connections_dropped_total',
    help: 'Connections that were closed: beyond the limit, stalled because the client took nothing, or before TLS was agreed on.',
    labelNames: ['listener', 'reason'],
    registers,
  })
  const limits = new Gauge({
    name: 'sallyport_connections_limit',
    help: 'Connections that may be open at once.',
    labelNames: ['listener'],
    registers,
  })
  const counts: [listener: string, count: () => number][] = []
  new Gauge({
    name: 'sallyport_connections_open',
    help: 'Connections of clients that are open.',
    labelNames: ['listener'],
    registers,
    collect() {
      for (const [listener, count] of counts) this.set({ listener }, count())
    },
  })
  return {
    countDroppedConnection: (listener, reason) => dropped.inc({ listener, reason }),
    watchConnections: (listener, count, limit) => {
      limits.set({ listener }, limit)
      counts.push([listener, count])
    },
  }
}
