import { Counter, Gauge, type Registry } from 'prom-client'
import { isAccessEnd, refusalOfStreamFailure, streamFailureCodes } from '../../errors/stream-failure.ts'

export type StreamMetrics = Readonly<{
  watchStreams: (count: () => number) => void
  countStreamFailure: (code: string) => void
  watchWebSockets: (count: () => number) => void
  countAccessEnd: (reason: string, cause: string) => void
  countConfirmation: () => void
}>

export function createStreamMetrics(registers: Registry[]): StreamMetrics {
  let streams = () => 0
  new Gauge({
    name: 'sallyport_streams_open',
    help: 'Open event streams of the model surface.',
    registers,
    collect() {
      this.set(streams())
    },
  })
  const failures = new Counter({
    name: 'sallyport_streams_failed_total',
    help: 'Event streams that the gateway ended with response.failed, by x_service_error_code, except those whose rights ended.',
    labelNames: ['code'],
    registers,
  })
  // Prometheus sees no increase in a series that first appears with 1.
  for (const code of streamFailureCodes.filter((code) => !isAccessEnd(code))) failures.inc({ code }, 0)
  const ended = new Counter({
    name: 'sallyport_exchanges_ended_total',
    help: 'Open exchanges ended because their rights ended, by reason and exact cause.',
    labelNames: ['reason', 'cause'],
    registers,
  })
  for (const reason of streamFailureCodes.filter(isAccessEnd))
    ended.inc({ reason, cause: refusalOfStreamFailure(reason) }, 0)
  const confirmations = new Counter({
    name: 'sallyport_confirmations_total',
    help: 'Decisions made again for a request that waits, since a change came after its facts were read.',
    registers,
  })
  let webSockets = () => 0
  new Gauge({
    name: 'sallyport_websockets_open',
    help: 'Open WebSocket tunnels.',
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
    countAccessEnd: (reason, cause) => ended.inc({ reason, cause }),
    countConfirmation: () => confirmations.inc(),
    watchWebSockets: (count) => {
      webSockets = count
    },
  }
}
