import { Counter, Gauge, type Registry } from 'prom-client'

type HeldMemory = Readonly<{ bytes: number; throttledConnections: number; heldReads: number }>

export type ConnectionMetrics = Readonly<{
  countDroppedConnection: (listener: string, reason: string) => void
  watchConnections: (listener: string, count: () => number, limit: number) => void
  watchHeldMemory: (read: () => HeldMemory, limitBytes: number) => void
  countUnreadableChain: () => void
}>

export function createConnectionMetrics(registers: Registry[]): ConnectionMetrics {
  const dropped = new Counter({
    name: 'sallyport_connections_dropped_total',
    help: 'Connections that the gateway closed, by reason: limit reached, displaced by a new one, client stalled, TLS handshake failed, or too much memory buffered.',
    labelNames: ['listener', 'reason'],
    registers,
  })
  const limits = new Gauge({
    name: 'sallyport_connections_limit',
    help: 'Limit of open connections of clients.',
    labelNames: ['listener'],
    registers,
  })
  const counts: [listener: string, count: () => number][] = []
  new Gauge({
    name: 'sallyport_connections_open',
    help: 'Open connections of clients.',
    labelNames: ['listener'],
    registers,
    collect() {
      for (const [listener, count] of counts) this.set({ listener }, count())
    },
  })
  const unreadable = new Counter({
    name: 'sallyport_forwarded_for_unreadable_total',
    help: 'Requests whose X-Forwarded-For of a trusted proxy has an item that is not an address.',
    registers,
  })
  const watchHeldMemory = createHeldMetrics(registers)
  return {
    watchHeldMemory,
    countUnreadableChain: () => unreadable.inc(),
    countDroppedConnection: (listener, reason) => dropped.inc({ listener, reason }),
    watchConnections: (listener, count, limit) => {
      limits.set({ listener }, limit)
      counts.push([listener, count])
    },
  }
}

function createHeldMetrics(registers: Registry[]): ConnectionMetrics['watchHeldMemory'] {
  let readHeld = (): HeldMemory => ({ bytes: 0, throttledConnections: 0, heldReads: 0 })
  new Gauge({
    name: 'sallyport_held_bytes',
    help: 'Bytes buffered for slow peers: pipelined requests, bodies, responses and unfinished events.',
    registers,
    collect() {
      this.set(readHeld().bytes)
    },
  })
  const heldLimit = new Gauge({
    name: 'sallyport_held_bytes_limit',
    help: 'Limit of the bytes buffered for slow peers.',
    registers,
  })
  new Gauge({
    name: 'sallyport_connections_throttled',
    help: 'Throttled connections, because too many bytes are buffered for their address or organization.',
    registers,
    collect() {
      this.set(readHeld().throttledConnections)
    },
  })
  new Counter({
    name: 'sallyport_reads_held_total',
    help: 'Reads of large bodies that waited for a later turn, because their organization, network or all together took their time.',
    registers,
    collect() {
      this.reset()
      this.inc(readHeld().heldReads)
    },
  })
  return (read, limitBytes) => {
    readHeld = read
    heldLimit.set(limitBytes)
  }
}
