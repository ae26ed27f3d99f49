import { Counter, Gauge, type Registry } from 'prom-client'
import { streamFailureCodes } from '../../errors/stream-failure.ts'

/** What lasts longer than an answer: event streams of the model surface, and WebSockets. */
export type StreamMetrics = Readonly<{
  /** Calls back at each scrape. */
  watchStreams: (count: () => number) => void
  countStreamFailure: (code: string) => void
  /** Calls back at each scrape. */
  watchWebSockets: (count: () => number) => void
}>

export function createStreamMetrics(registers: Registry[]): StreamMetrics {
  let streams = () => 0
  new Gauge({
    name: 'sallyport_streams_open',
    help: 'Event streams of the model surface that are open.',
    registers,
    collect() {
      this.set(streams())
    },
  })
  const failures = new Counter({
    name: 'sallyport_streams_failed_total',
    help: 'Event streams that were ended with response.failed by the gateway, by x_service_error_code.',
    labelNames: ['code'],
    registers,
  })
  // What appears with a 1 is no increase to Prometheus.
  for (const code of streamFailureCodes) failures.inc({ code }, 0)
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
    watchStreams: (count) => {
      streams = count
    },
    countStreamFailure: (code) => failures.inc({ code }),
    watchWebSockets: (count) => {
      webSockets = count
    },
  }
}
