import { isAccessEnd, refusalOfStreamFailure, streamFailureCodes } from '../../base/errors/stream-failure.ts'
import type { Meter } from './meter.ts'

export type StreamMetrics = Readonly<{
  watchStreams: (count: () => number) => void
  countStreamFailure: (code: string) => void
  watchWebSockets: (count: () => number) => void
  countAccessEnd: (reason: string, cause: string) => void
  countConfirmation: () => void
}>

export function createStreamMetrics({ counter, count, watch }: Meter): StreamMetrics {
  const watchStreams = watch('sallyport_streams_open', 'Open event streams of the model surface.')
  const failures = counter(
    'sallyport_streams_failed_total',
    'Event streams that the gateway ended with response.failed, by x_service_error_code, except those whose rights ended.',
    'code',
  )
  for (const code of streamFailureCodes.filter((code) => !isAccessEnd(code))) failures(code)
  const ended = counter(
    'sallyport_exchanges_ended_total',
    'Open exchanges ended because their rights ended, by reason and exact cause.',
    'reason',
    'cause',
  )
  for (const reason of streamFailureCodes.filter(isAccessEnd)) ended(reason, refusalOfStreamFailure(reason))
  return {
    watchStreams,
    countStreamFailure: (code) => {
      failures(code).count += 1
    },
    countAccessEnd: (reason, cause) => {
      ended(reason, cause).count += 1
    },
    countConfirmation: count(
      'sallyport_confirmations_total',
      'Decisions made again for a request that waits, since a change came after its facts were read.',
    ),
    watchWebSockets: watch('sallyport_websockets_open', 'Open WebSocket tunnels.'),
  }
}
