import type { RefusalCause } from './gateway-error.ts'

/**
 * Failures that end a stream early, by the code that the client gets. The first text is `x_service_error_message`. The
 * second is the equivalent refusal, for streams whose head has not been sent.
 */
const failures = {
  worker_disconnected: ['The agent worker dropped its connection mid-run.', 'upstream_no_response'],
  upstream_timeout: ['The agent worker fell silent mid-run.', 'upstream_timeout'],
  gateway_draining: ['The gateway is shutting down.', 'gateway_draining'],
  internal_error: ['Something went wrong on our side.', 'internal'],
  event_too_large: ['The agent worker sent an event that is too large.', 'event_too_large'],
  access_revoked: ['The right to this response was withdrawn.', 'user_gone'],
  credential_expired: ['The credential of this response has expired.', 'expired'],
  access_unverified: ['The right to this response could not be verified.', 'directory_unavailable'],
} as const satisfies Record<string, readonly [detail: string, refusal: RefusalCause]>

export type StreamFailureCode = keyof typeof failures

export type AccessEndCode = Extract<StreamFailureCode, `access_${string}` | 'credential_expired'>

const accessEnds: readonly string[] = [
  'access_revoked',
  'credential_expired',
  'access_unverified',
] satisfies readonly AccessEndCode[]

export const isAccessEnd = (code: StreamFailureCode): code is AccessEndCode => accessEnds.includes(code)

export const listStreamFailures = (): readonly (readonly [code: string, detail: string, refusal: RefusalCause])[] =>
  Object.entries(failures).map(([code, [detail, refusal]]) => [code, detail, refusal])
export const streamFailureCodes = Object.keys(failures) as readonly StreamFailureCode[]

/** Like all messages to clients, this one tells nothing about the systems behind the gateway. */
export const describeStreamFailure = (code: StreamFailureCode): string => failures[code][0]

export const refusalOfStreamFailure = (code: StreamFailureCode): RefusalCause => failures[code][1]
