// The catalogue of refusals, and the error that carries one. render.ts alone makes bodies of them.
import { type CodeWithExactCauses, causes, type ExactCause } from './causes.ts'
import type { ToldError } from './told-error.ts'

/** The check of the policy that a 403 failed (SPEC section 5). It never says what would have been enough. */
export type Check = 'role' | 'ability' | 'resource' | 'decision'

export type RefusalDetails = Readonly<{
  messages?: readonly ValidationMessage[]
  /** Methods of the path, for the Allow header of a 405 (RFC 9110 15.5.6). */
  allow?: readonly string[]
  status?: number
  retryAfter?: string
  /** Takes the place of message, type and code on the model surface. */
  told?: ToldError | undefined
  tokenId?: number
  /** The rule of several under one cause, for `token inspect`. It never holds text of a token. */
  rule?: string
}>

export type ValidationMessage = Readonly<{ field: string; rule: string; message: string }>

/**
 * Status and message of each refusal. All 401s about a credential share one code and message, so that no client learns
 * which guess came close.
 */
const refusals = {
  target_malformed: [400, 'The request target is malformed.'],
  target_misreadable: [400, 'Servers read this request target in different ways; write it plainly.'],
  headers_malformed: [400, 'The request headers are malformed.'],
  ambiguous_target: [400, 'The original method and target are missing or contradict each other.'],
  ambiguous_credentials: [400, 'Send one credential: an OAuth token or an API token, not both.'],
  invalid_organization_id: [400, 'x-organization-id must be a positive integer.'],
  body_unparseable: [400, 'The request body is not valid JSON.'],
  unauthenticated: [401, 'Authentication is required: the credential is missing, invalid or expired.'],
  not_a_member: [401, 'You are not a member of this organization.'],
  role_insufficient: [403, 'Your role does not permit this action.', 'role'],
  ability_missing: [403, 'This credential does not permit this action.', 'ability'],
  organization_forbidden: [403, 'You are not a member of this organization.', 'role'],
  origin_forbidden: [403, 'Pages of this origin may not use this credential.'],
  account_out_of_reach: [403, 'Your role does not cover all that this account may do.', 'role'],
  enterprise_required: [403, 'This needs an Enterprise organization.', 'resource'],
  decision_refused: [403, 'You are not permitted to do this.', 'decision'],
  cluster_suspended: [403, 'The cluster is suspended.', 'resource'],
  route_not_found: [404, 'Nothing is served at this path.'],
  not_available: [404, 'This gateway does not offer it.'],
  resource_not_found: [404, 'The resource does not exist or is not visible to you.'],
  method_not_allowed: [405, 'This path does not take this method.'],
  request_timeout: [408, 'The request was not received in time.'],
  body_too_large: [413, 'The request body is larger than this route accepts.'],
  target_too_long: [414, 'The request target is too long.'],
  encoding_unsupported: [415, 'Send the body without a content encoding.'],
  expectation_failed: [417, 'Only Expect: 100-continue is understood.'],
  validation_failure: [422, 'Validation failure'],
  rate_limited: [429, 'Too many requests; try again later.'],
  too_many_attempts: [429, 'Too many unknown tokens came from this address; try again later.'],
  headers_too_large: [431, 'The request headers are too large.'],
  forwarded_head_too_large: [431, 'The request headers are larger than the upstream takes.'],
  internal: [500, 'Something went wrong on our side.'],
  method_unknown: [501, 'This method is not implemented.'],
  transfer_encoding_unknown: [501, 'This transfer encoding is not implemented.'],
  upstream_error: [502, 'The upstream failed to answer.'],
  cluster_offline: [503, 'The cluster is offline.'],
  upstream_unavailable: [503, 'The upstream is unavailable.'],
  upstream_timeout: [503, 'The upstream did not answer in time.'],
  event_too_large: [503, 'The upstream sent an event that is too large.'],
  route_changed: [503, 'The route changed while the request waited; try again.'],
  gateway_draining: [503, 'The gateway is shutting down; try again shortly.'],
  directory_unavailable: [503, 'The directory is unavailable; try again shortly.'],
  directory_read_only: [503, 'The directory cannot be changed at the moment; try again shortly.'],
  lookups_busy: [503, 'Too many unknown tokens are being looked up; try again shortly.'],
  audit_unavailable: [503, 'Decisions cannot be recorded at the moment; try again shortly.'],
  rate_limit_unavailable: [503, 'Requests cannot be counted at the moment; try again shortly.'],
  issuer_unavailable: [503, 'The identity provider is unavailable; try again shortly.'],
  decision_unavailable: [503, 'This action cannot be decided at the moment; try again shortly.'],
} as const satisfies Record<string, readonly [status: number, message: string, check?: Check]>

export type RefusalCode = keyof typeof refusals

type CodeOfStatus<Status> = {
  [Code in RefusalCode]: (typeof refusals)[Code][0] extends Status ? Code : never
}[RefusalCode]

export type UnavailableCode = CodeOfStatus<503>

export type PlainCode = Exclude<RefusalCode, CodeWithExactCauses>

export type RefusalCause = PlainCode | ExactCause

const codeOfCause: Readonly<Partial<Record<RefusalCause, RefusalCode>>> = Object.fromEntries(
  Object.entries(causes satisfies Record<ExactCause, readonly [RefusalCode, string, string]>).map(([cause, [code]]) => [
    cause,
    code,
  ]),
)

export const codeOf = (cause: RefusalCause): RefusalCode =>
  // A cause without an exact cause is its own code: the types prove it, but `Partial` drops it.
  codeOfCause[cause] ?? (cause as PlainCode)

export type CataloguedRefusal = Readonly<{ code: RefusalCode; status: number; message: string; check?: Check }>

export const listRefusals = (): readonly CataloguedRefusal[] =>
  (Object.keys(refusals) as RefusalCode[]).map(findRefusal)

export const findRefusal = (code: RefusalCode): CataloguedRefusal => {
  const [status, message, check] = refusals[code] as readonly [number, string, Check?]
  return { code, status, message, ...(check && { check }) }
}

export class GatewayError extends Error {
  override readonly name = 'GatewayError'
  readonly code: RefusalCode
  readonly exactCause: RefusalCause
  readonly status: number
  readonly check: Check | undefined
  readonly details: RefusalDetails

  constructor(exactCause: RefusalCause, options: ErrorOptions & RefusalDetails = {}) {
    const { cause, ...details } = options
    const code = codeOf(exactCause)
    const [status, message, check] = refusals[code] as readonly [number, string, Check?]
    const { stackTraceLimit } = Error
    // A stack trace says nothing about a client's mistake, and it costs CPU.
    if (status < 500) Error.stackTraceLimit = 0
    super(message, cause === undefined ? undefined : { cause })
    Error.stackTraceLimit = stackTraceLimit
    this.code = code
    this.exactCause = exactCause
    this.status = details.status ?? status
    this.check = check
    this.details = details
  }

  /** Every other error is a bug of the gateway, so the client only learns that it was internal. */
  static from(error: unknown): GatewayError {
    return error instanceof GatewayError ? error : new GatewayError('internal', { cause: error })
  }
}
