import { causes, type ExactCause } from './causes.ts'
import { codeOf, type RefusalCause, type RefusalCode } from './gateway-error.ts'
import type { StreamFailureCode } from './stream-failure.ts'

/** What a code means, and what to do about it: for the documentation, never for an answer. */
export type Remedy = readonly [meaning: string, remedy: string]

/** For every code of the catalogue. */
export const remedies: Readonly<Record<RefusalCode, Remedy>> = {
  target_malformed: [
    'The target is no path in visible ASCII, or holds a dot segment, an encoded slash, a control byte or the like.',
    'Send the plain path. Percent-encode what is not a letter, a digit or one of `-._~`.',
  ],
  target_misreadable: [
    'Read as some servers read paths, it would belong to a row of the table that asks for more, or reading it takes too long.',
    'Send the path as the documentation of the API spells it: letters, slashes and escapes included.',
  ],
  headers_malformed: [
    'A header is folded, repeated, misspelt (another character for `-`) or not a header at all, and it is one that decides; or the body does not end as its framing says.',
    'Send every header that decides once, on one line, in its usual spelling, and the body to its end.',
  ],
  ambiguous_target: [
    'At the decision listener: the proxy named no original method and target, or two different ones.',
    'Configure the proxy as its page under `docs/guides/external-authorization/` says.',
  ],
  ambiguous_credentials: ['There is an OAuth token and an API token.', 'Send the one that is meant.'],
  invalid_organization_id: [
    'The organization is no positive integer, is named twice, or is another than that of the path.',
    'Send the id as `GET /users/me` shows it, once; none at all where the path has it.',
  ],
  body_unparseable: [
    'The body of an endpoint of the gateway is no JSON.',
    'Send JSON, and something rather than nothing.',
  ],
  unauthenticated: [
    'There is no credential, or it is malformed, unknown, expired or revoked; which of these is never said.',
    'Get a new OAuth token, or ask an administrator for a new API token.',
  ],
  not_a_member: [
    'The caller is no member of the organization in `x-organization-id` or the cookie; one that does not exist reads the same.',
    'Name one of the caller’s own organizations, or none.',
  ],
  role_insufficient: [
    'The role in the organization in force is too low, or no organization is in force.',
    'Name the organization in which the role is held, or have a higher one given. `sallyport policy explain` shows the check.',
  ],
  ability_missing: [
    'The API token, or the role, lacks the ability that the route requires.',
    'Mint a token of a wider scope, as far as the role of its owner goes.',
  ],
  organization_forbidden: [
    'The path names an organization of which the caller is no member.',
    'Use one of the caller’s own.',
  ],
  account_out_of_reach: [
    'A token acts wherever its account does: the account has a higher role here, a bypass scope, or an organization in which the caller is no administrator.',
    'Have an administrator of all its organizations mint, or an operator: `sallyport tokens mint`. Better one account an organization.',
  ],
  enterprise_required: [
    'API tokens are minted in Enterprise organizations alone.',
    'Upgrade the organization, or use OAuth.',
  ],
  cluster_suspended: ['An operator has suspended the cluster.', '`sallyport clusters resume` takes it back.'],
  route_not_found: [
    'No row of the table matches the path.',
    'Check the path, or add a row: `sallyport policy coverage` finds what is missing.',
  ],
  resource_not_found: [
    'It does not exist, or belongs to another organization; which of the two is never said.',
    'Check the id, and which organization is in force.',
  ],
  method_not_allowed: ['The path is known, with other methods.', 'Use one of those in `Allow`.'],
  request_timeout: [
    'The head was not complete in time, or the body fell silent or dripped.',
    'Send again. For slow links raise `timeouts.bodyIdleMs`, or lower `limits.minBodyBytesPerSecond`.',
  ],
  body_too_large: ['The body is larger than the route takes.', 'Send less, or raise `limits.bodyBytes` of the row.'],
  target_too_long: [
    'The target is longer than the route takes.',
    'Send it in a body, or raise `limits.targetBytes` of the row.',
  ],
  expectation_failed: ['`Expect` says something other than `100-continue`.', 'Leave the header out.'],
  validation_failure: [
    'A field of the body or query is not as it must be.',
    'Read `error.messages`: field, rule and sentence of each.',
  ],
  rate_limited: [
    'A budget of requests is spent.',
    'Wait for as many seconds as `Retry-After` says. `RateLimit` tells in advance.',
  ],
  too_many_attempts: [
    'More unknown tokens came from the client’s address than `authentication.unknownTokens` allows.',
    'Wait for as many seconds as `Retry-After` says, and send a token that exists. Tokens in use are not counted.',
  ],
  headers_too_large: [
    'The headers are larger than the route takes.',
    'Send fewer cookies, or raise `limits.headerBytes` of the row.',
  ],
  internal: ['A fault of the gateway.', 'Report it with the request id; the log has the place under it.'],
  method_unknown: ['The method is none that HTTP or the gateway knows.', 'Use a usual one.'],
  transfer_encoding_unknown: [
    '`Transfer-Encoding` is something other than `chunked`.',
    'Send the body with a length, or chunked.',
  ],
  upstream_error: [
    'On the model surface: an upstream’s own 5xx that was no JSON, in our shape and with its status.',
    'Look at the backend.',
  ],
  cluster_offline: [
    'The cluster was not heard of for `cluster.staleAfterMs`, is being deleted, or cannot be reached.',
    'Try again later. `sallyport clusters list` shows the last heartbeat.',
  ],
  upstream_unavailable: [
    'The upstream cannot be reached, refused the connection, or broke off before its answer.',
    'Try again. Operators look at the backend, and at `sallyport_requests_total{status="503"}`.',
  ],
  upstream_timeout: [
    'The upstream took longer than `timeouts.connectMs` or `timeouts.firstByteMs`.',
    'Try again; where it needs longer by its nature raise `timeouts` of the row.',
  ],
  event_too_large: ['The first event of a stream is over 16 MiB.', 'Look at the backend.'],
  gateway_draining: ['This gateway is stopping.', 'Try again: another one answers.'],
  directory_unavailable: [
    'PostgreSQL cannot be asked, and what is held in memory does not suffice.',
    'Try again. Operators look at `/readyz` and the database.',
  ],
  directory_read_only: [
    'Something was to be written, and PostgreSQL at `database.url` is a standby or read-only: minting, revoking, a first login.',
    'Try again once a primary is there. Operators look at `writes` of `/readyz`, and give `database.url` the primary.',
  ],
  lookups_busy: [
    'Tokens that no cache knows share a part of the database’s connections, and the client’s address has most of those that wait.',
    'Try again. Operators look at `sallyport_unknown_tokens_total`, and may set `authentication.unknownTokens`.',
  ],
  audit_unavailable: [
    'With `audit.onFull: wait`: the decision could not be written down in time.',
    'Try again. Operators look at the sink and `sallyport_audit_sink_up`.',
  ],
  rate_limit_unavailable: [
    'Redis cannot be asked, and the rate limit of the route says `onError: deny`.',
    'Try again. Operators look at Redis and `sallyport_rate_limit_errors_total`.',
  ],
  issuer_unavailable: [
    'The token’s key is not known yet, and its issuer cannot be asked for it.',
    'Try again. Operators look at `sallyport_jwks_issuer_up`.',
  ],
}

/** What ended a stream early, and what its client does about it. */
export const streamRemedies: Readonly<Record<StreamFailureCode, string>> = {
  worker_disconnected: 'Ask again: what was said so far may be incomplete.',
  upstream_timeout: 'Ask again; operators compare `timeouts.streamIdleMs` with the worker’s longest silence.',
  gateway_draining: 'Ask again: another gateway answers.',
  internal_error: 'Report it with the request id.',
  event_too_large: 'Ask for less at once; an event is 16 MiB at most.',
}

/** An exact cause with its code and words. */
export type DescribedCause = Readonly<{ cause: RefusalCause; code: RefusalCode; meaning: string; remedy: string }>

const isExact = (cause: string): cause is ExactCause => Object.hasOwn(causes, cause)

/** All exact causes, by the order of the catalogue. */
export const listExactCauses = (): readonly DescribedCause[] =>
  Object.keys(causes).flatMap((name) => describeCause(name) ?? [])

/** The cause of that name; undefined where there is none. */
export function describeCause(name: string): DescribedCause | undefined {
  if (!isExact(name) && !Object.hasOwn(remedies, name)) return undefined
  const cause = name as RefusalCause // one of the two catalogues has it
  const code = codeOf(cause)
  const [, meaning, remedy] = isExact(cause) ? causes[cause] : ([code, ...remedies[code]] as const)
  return { cause, code, meaning, remedy }
}
