import { describeStreamFailure, type StreamFailureCode } from './stream-failure.ts'
import type { StreamKind } from './surface.ts'
import type { ToldError } from './told-error.ts'

export type BrokenStream = Readonly<{
  kind: StreamKind
  responseId: string
  createdAt: number
  sequenceNumber: number | undefined
  hasEvents: boolean
  /** The upstream's own error, if it wrote one in place of an event. */
  told?: ToldError | undefined
}>

export const responseIdPrefixes: Readonly<Record<StreamKind, string>> = { responses: 'resp_', chat: 'chatcmpl-' }

/** A comment, so that proxies and clients do not time out during a silence. */
export const keepAlive = ':keep-alive\n\n'

/**
 * Without a blank line, for streams with event ids. Python's SDK keeps the last id, so after a comment it would read a
 * blank line as an event without data.
 */
export const keepAliveAfterId = ':keep-alive\n'

const message = 'The response ended before it was complete.'

/**
 * Composes the end of a stream that its upstream left unfinished: a `response.failed`. If the client has seen no event
 * yet, a `response.created` comes first, without which official SDKs reject every other event.
 */
export function renderStreamFailure(code: StreamFailureCode, stream: BrokenStream): string {
  const failed = (sequenceNumber: number) => ({
    type: 'response.failed',
    sequence_number: sequenceNumber,
    response: {
      ...openResponse(stream, 'failed'),
      error: { code: 'server_error', message, ...stream.told },
      metadata: { x_service_error_code: code, x_service_error_message: describeStreamFailure(code) },
    },
  })
  if (stream.kind === 'chat') {
    // SDKs skip a named event here. They raise the top-level error and hand on nothing else.
    const own = { message, type: 'server_error', code: 'server_error' }
    const error = { ...own, ...stream.told, x_service_error_code: code }
    return `data: ${JSON.stringify({ ...failed(0), error })}\n\n`
  }
  if (stream.hasEvents) return writeEvent(failed((stream.sequenceNumber ?? -1) + 1))
  const created = { type: 'response.created', sequence_number: 0, response: openResponse(stream, 'in_progress') }
  return writeEvent(created) + writeEvent(failed(1))
}

/** Official SDKs fail without these fields. */
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
  [`event: ${event.type}`, `data: ${JSON.stringify(event)}`, '', ''].join('\n')
