import { describeStreamFailure, type StreamFailureCode } from './stream-failure.ts'
import type { StreamKind } from './surface.ts'

/** What the closing event of a broken stream repeats of the stream. */
export type BrokenStream = Readonly<{
  kind: StreamKind
  responseId: string
  /** In seconds, as the model API's `created_at`. */
  createdAt: number
  /** The last one that was seen. */
  sequenceNumber: number | undefined
  hasEvents: boolean
}>

/** How the model API begins the ids of its responses. */
export const responseIdPrefixes: Readonly<Record<StreamKind, string>> = { responses: 'resp_', chat: 'chatcmpl-' }

/** A comment that keeps proxies and clients from giving up on a quiet stream. */
export const keepAlive = ':keep-alive\n\n'

/**
 * The same without a blank line, for streams that use event ids: Python's SDK keeps the last id, and then takes a
 * blank line after a comment for an event without data.
 */
export const keepAliveAfterId = ':keep-alive\n'

const message = 'The response ended before it was complete.'

/**
 * The last words of a stream that its upstream left unfinished: `response.failed`, and before it, if the client has
 * seen no event yet, the `response.created` without which official SDKs reject every other event.
 */
export function renderStreamFailure(code: StreamFailureCode, stream: BrokenStream): string {
  const failed = (sequenceNumber: number) => ({
    type: 'response.failed',
    sequence_number: sequenceNumber,
    response: {
      ...openResponse(stream, 'failed'),
      error: { code: 'server_error', message },
      metadata: { x_service_error_code: code, x_service_error_message: describeStreamFailure(code) },
    },
  })
  if (stream.kind === 'chat') {
    // Without an event name, or SDKs would skip it; the top-level error is what they raise, and all that they hand on.
    const error = { message, type: 'server_error', code: 'server_error', x_service_error_code: code }
    return `data: ${JSON.stringify({ ...failed(0), error })}\n\n`
  }
  if (stream.hasEvents) return writeEvent(failed((stream.sequenceNumber ?? -1) + 1))
  const created = { type: 'response.created', sequence_number: 0, response: openResponse(stream, 'in_progress') }
  return writeEvent(created) + writeEvent(failed(1))
}

/** The fields that official SDKs trip over when they are missing. */
const openResponse = ({ responseId, createdAt }: BrokenStream, status: string) => ({
  id: responseId,
  object: 'response',
  created_at: createdAt,
  status,
  error: null,
  output: [],
  metadata: {},
})

const writeEvent = (event: Readonly<{ type: string }>): string =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
