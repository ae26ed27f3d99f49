import type { RefusalCause } from './gateway-error.ts'

/**
 * What can end a stream early, by the code that its client is told: the sentence for `x_service_error_message`, and
 * the refusal that says the same while the head of the answer has not gone out.
 */
const failures = {
  worker_disconnected: ['The agent worker dropped its connection mid-run.', 'upstream_no_response'],
  upstream_timeout: ['The agent worker fell silent mid-run.', 'upstream_timeout'],
  gateway_draining: ['The gateway is shutting down.', 'gateway_draining'],
  internal_error: ['Something went wrong on our side.', 'internal'],
  event_too_large: ['The agent worker sent an event that is too large.', 'event_too_large'],
} as const satisfies Record<string, readonly [detail: string, refusal: RefusalCause]>

export type StreamFailureCode = keyof typeof failures

/** Every failure with its detail text. */
export const listStreamFailures = (): readonly (readonly [code: string, detail: string, refusal: RefusalCause])[] =>
  Object.entries(failures).map(([code, [detail, refusal]]) => [code, detail, refusal])
export const streamFailureCodes = Object.keys(failures) as readonly StreamFailureCode[]

/** The detail text of a failure; like every text of ours it says nothing of what lies behind the gateway. */
export const describeStreamFailure = (code: StreamFailureCode): string => failures[code][0]

/** The refusal that a failure is as long as the client has no answer yet. */
export const refusalOfStreamFailure = (code: StreamFailureCode): RefusalCause => failures[code][1]
