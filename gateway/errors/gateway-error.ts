import { type CodeWithExactCauses, causes, type ExactCause } from './causes.ts'

/** Which check of the policy a 403 failed (SPEC section 5); it never says what would have been enough. */
export type Check = 'role' | 'ability' | 'resource'

/** What only some refusals carry. */
export type RefusalDetails = Readonly<{
  /** The fields of a validation failure, in the order they were checked. */
  messages?: readonly ValidationMessage[]
  /** Methods that the path does know, for the Allow header of a 405 (RFC 9110 15.5.6). */
  allow?: readonly string[]
  /** The status of an upstream's own failure, which goes on in our shape. */
  status?: number
  /** When an upstream says to try again. */
  retryAfter?: string
  /** The number that a refused API token claims to have: for log and audit alone. */
  tokenId?: number
}>

export type ValidationMessage = Readonly<{ field: string; rule: string; message: string }>

/**
 * Every refusal the gateway can give: its HTTP status, and the one message a client sees.
 * All 401s about a credential share code and message, so that nobody learns which guess came close.
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
  account_out_of_reach: [403, 'Your role does not cover all that this account may do.', 'role'],
  enterprise_required: [403, 'This needs an Enterprise organization.', 'resource'],
  cluster_suspended: [403, 'The cluster is suspended.', 'resource'],
  route_not_found: [404, 'Nothing is served at this path.'],
  resource_not_found: [404, 'The resource does not exist or is not visible to you.'],
  method_not_allowed: [405, 'This path does not take this method.'],
  request_timeout: [408, 'The request was not received in time.'],
  body_too_large: [413, 'The request body is larger than this route accepts.'],
  target_too_long: [414, 'The request target is too long.'],
  expectation_failed: [417, 'Only Expect: 100-continue is understood.'],
  validation_failure: [422, 'Validation failure'],
  rate_limited: [429, 'Too many requests; try again later.'],
  too_many_attempts: [429, 'Too many unknown tokens came from this address; try again later.'],
  headers_too_large: [431, 'The request headers are too large.'],
  internal: [500, 'Something went wrong on our side.'],
  method_unknown: [501, 'This method is not implemented.'],
  transfer_encoding_unknown: [501, 'This transfer encoding is not implemented.'],
  upstream_error: [502, 'The upstream failed to answer.'],
  cluster_offline: [503, 'The cluster is offline.'],
  upstream_unavailable: [503, 'The upstream is unavailable.'],
  upstream_timeout: [503, 'The upstream did not answer in time.'],
  event_too_large: [503, 'The upstream sent an event that is too large.'],
  gateway_draining: [503, 'The gateway is shutting down; try again shortly.'],
  directory_unavailable: [503, 'The directory is unavailable; try again shortly.'],
  directory_read_only: [503, 'The directory cannot be changed at the moment; try again shortly.'],
  lookups_busy: [503, 'Too many unknown tokens are being looked up; try again shortly.'],
  audit_unavailable: [503, 'Decisions cannot be recorded at the moment; try again shortly.'],
  rate_limit_unavailable: [503, 'Requests cannot be counted at the moment; try again shortly.'],
  issuer_unavailable: [503, 'The identity provider is unavailable; try again shortly.'],
} as const satisfies Record<string, readonly [status: number, message: string, check?: Check]>

export type RefusalCode = keyof typeof refusals

/** A code that stands for one cause alone, and so names it. */
export type PlainCode = Exclude<RefusalCode, CodeWithExactCauses>

/** The exact cause of a refusal: the log, the audit, the metrics and the console name it, and no response does. */
export type RefusalCause = PlainCode | ExactCause

const codeOfCause: Readonly<Partial<Record<RefusalCause, RefusalCode>>> = Object.fromEntries(
  Object.entries(causes satisfies Record<ExactCause, readonly [RefusalCode, string, string]>).map(([cause, [code]]) => [
    cause,
    code,
  ]),
)

/** The code that a client sees of a cause. */
export const codeOf = (cause: RefusalCause): RefusalCode =>
  // Without an exact cause the code is its own: the types say so, and `Partial` forgets it.
  codeOfCause[cause] ?? (cause as PlainCode)

/** One refusal of the catalogue, as plain data. */
export type CataloguedRefusal = Readonly<{ code: RefusalCode; status: number; message: string; check?: Check }>

/** The whole catalogue, in the order of the statuses. */
export const listRefusals = (): readonly CataloguedRefusal[] =>
  // `Object.keys` forgets the type of the keys.
  (Object.keys(refusals) as RefusalCode[]).map(findRefusal)

/** One refusal of the catalogue. */
export const findRefusal = (code: RefusalCode): CataloguedRefusal => {
  const [status, message, check] = refusals[code] as readonly [number, string, Check?]
  return { code, status, message, ...(check && { check }) }
}

/** A refusal by its cause: the only kind of error that a client may be told about. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError'
  readonly code: RefusalCode
  /** Beside the code, as `cause` is taken by `Error`. */
  readonly exactCause: RefusalCause
  readonly status: number
  readonly check: Check | undefined
  readonly details: RefusalDetails

  constructor(exactCause: RefusalCause, options: ErrorOptions & RefusalDetails = {}) {
    const { cause, ...details } = options
    const code = codeOf(exactCause)
    const [status, message, check] = refusals[code] as readonly [number, string, Check?]
    const { stackTraceLimit } = Error
    // What a client does wrong says nothing about a place of ours, and must not cost as if it did.
    if (status < 500) Error.stackTraceLimit = 0
    super(message, cause === undefined ? undefined : { cause })
    Error.stackTraceLimit = stackTraceLimit
    this.code = code
    this.exactCause = exactCause
    this.status = details.status ?? status
    this.check = check
    this.details = details
  }

  /** Anything that is not a GatewayError is a bug of ours, and says nothing to the client. */
  static from(error: unknown): GatewayError {
    return error instanceof GatewayError ? error : new GatewayError('internal', { cause: error })
  }
}
