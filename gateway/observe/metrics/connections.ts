import type { Meter } from './meter.ts'

type HeldMemory = Readonly<{ bytes: number; throttledConnections: number; heldReads: number }>

export type ConnectionMetrics = Readonly<{
  countDroppedConnection: (listener: string, reason: string) => void
  watchConnections: (listener: string, count: () => number, limit: number) => void
  watchHeldMemory: (read: () => HeldMemory, limitBytes: number) => void
  countUnreadableChain: () => void
}>

export function createConnectionMetrics(meter: Meter): ConnectionMetrics {
  const countDroppedConnection = meter.count(
    'sallyport_connections_dropped_total',
    'Connections that the gateway closed, by reason: limit reached, displaced by a new one, client stalled, TLS handshake failed, or too much memory buffered.',
    'listener',
    'reason',
  )
  const limits = meter.gauge('sallyport_connections_limit', 'Limit of open connections of clients.', 'listener')
  const counts: [listener: string, count: () => number][] = []
  meter.collect('sallyport_connections_open', 'Open connections of clients.', ['listener'], (gauge) => {
    for (const [listener, count] of counts) gauge.set({ listener }, count())
  })
  return {
    countDroppedConnection,
    countUnreadableChain: meter.count(
      'sallyport_forwarded_for_unreadable_total',
      'Requests whose X-Forwarded-For of a trusted proxy has an item that is not an address.',
    ),
    watchHeldMemory: createHeldMetrics(meter),
    watchConnections: (listener, count, limit) => {
      limits.set({ listener }, limit)
      counts.push([listener, count])
    },
  }
}

function createHeldMetrics({ watch, gauge, watchTotal }: Meter): ConnectionMetrics['watchHeldMemory'] {
  const watchBytes = watch(
    'sallyport_held_bytes',
    'Bytes buffered for slow peers: pipelined requests, bodies, responses and unfinished events.',
  )
  const limit = gauge('sallyport_held_bytes_limit', 'Limit of the bytes buffered for slow peers.')
  const watchThrottled = watch(
    'sallyport_connections_throttled',
    'Throttled connections, because too many bytes are buffered for their address or organization.',
  )
  const watchReads = watchTotal(
    'sallyport_reads_held_total',
    'Reads of large bodies that waited for a later turn, because their organization, network or all together took their time.',
  )
  return (read, limitBytes) => {
    watchBytes(() => read().bytes)
    watchThrottled(() => read().throttledConnections)
    watchReads(() => read().heldReads)
    limit.set(limitBytes)
  }
}
