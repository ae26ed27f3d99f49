import { Counter, Gauge, type Registry } from 'prom-client'
import { isAccessEnd, streamFailureCodes } from '../../errors/stream-failure.ts'

export type StreamMetrics = Readonly<{
  watchStreams: (count: () => number) => void
  countStreamFailure: (code: string) => void
  watchWebSockets: (count: () => number) => void
  countAccessEnd: (reason: string) => void
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
    help: 'Event streams that were ended with response.failed by the gateway, by x_service_error_code. Ends of rights are not among them.',
    labelNames: ['code'],
    registers,
  })
  // Prometheus sees no increase in a series that first appears with 1.
  for (const code of streamFailureCodes.filter((code) => !isAccessEnd(code))) failures.inc({ code }, 0)
  const ended = new Counter({
    name: 'sallyport_exchanges_ended_total',
    help: 'Open exchanges that were ended because their rights ended, by reason.',
    labelNames: ['reason'],
    registers,
  })
  for (const reason of streamFailureCodes.filter(isAccessEnd)) ended.inc({ reason }, 0)
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
    countAccessEnd: (reason) => ended.inc({ reason }),
    watchWebSockets: (count) => {
      webSockets = count
    },
  }
}
