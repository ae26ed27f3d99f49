import { causes, type ExactCause } from './causes.ts'
import { codeOf, type RefusalCause, type RefusalCode } from './gateway-error.ts'
import type { StreamFailureCode } from './stream-failure.ts'

export type Remedy = readonly [meaning: string, remedy: string]

export const remedies: Readonly<Record<RefusalCode, Remedy>> = {
  target_malformed: [
    'The target is not a path in visible ASCII, or it holds a dot segment, an encoded slash, a control byte or the like.',
    'Send the plain path. Percent-encode all characters but letters, digits and `-._~`.',
  ],
  target_misreadable: [
    'Some servers would read the target as the path of a stricter route or with another id, or it has too many readings.',
    'Send the target as the documentation of the API spells it, with its letters, slashes and escapes.',
  ],
  headers_malformed: [
    'A header that the gateway reads is folded, repeated, malformed or misspelt (another character for `-`). Or the body does not end as its framing says.',
    'Send each of these headers once, on one line, in its usual spelling. Send the complete body.',
  ],
  ambiguous_target: [
    'At the decision listener: the proxy named no original method and target, or two different ones.',
    'Configure the proxy as its page under `docs/guides/external-authorization/` says.',
  ],
  ambiguous_credentials: ['The request has both an OAuth token and an API token.', 'Send one of them.'],
  invalid_organization_id: [
    'The organization is not a positive integer, is named twice, or differs from the one in the path.',
    'Send the id once, as `GET /users/me` shows it. Leave it out if the path has it.',
  ],
  body_unparseable: ['The body for an endpoint of the gateway is not JSON.', 'Send JSON. An empty body is not JSON.'],
  unauthenticated: [
    'The credential is missing, malformed, unknown, expired or revoked. The response never says which.',
    'Get a new OAuth token, or ask an administrator for a new API token.',
  ],
  not_a_member: [
    'The caller is not a member of the organization in `x-organization-id` or the cookie, or it does not exist.',
    'Name one of the caller’s own organizations, or none.',
  ],
  role_insufficient: [
    'The role in the organization in force is too low, or no organization is in force.',
    'Name the organization in which the caller holds the role, or ask for a higher role. `sallyport policy explain` shows the check.',
  ],
  ability_missing: [
    'The API token, or the role, lacks the ability that the route requires.',
    'Mint a token with a wider scope. It may do no more than the role of its owner.',
  ],
  organization_forbidden: [
    'The path or host names an organization of which the caller is not a member.',
    'Name one of the caller’s organizations.',
  ],
  origin_forbidden: [
    'A cookie, or a header of `issuers[].tokens.headers`, carries the credential. The page is neither of the same origin nor of one in `issuers[].tokens.origins`.',
    'If pages of this origin may act as the user, add it to `issuers[].tokens.origins`, as the browser writes it. Behind a proxy that ends TLS, name the proxy in `trustedProxies`.',
  ],
  not_available: [
    'The route needs a database, and the gateway has none: users come from claims (`directory.kind`). Or, with `both`, the organization in force has its members from claims.',
    'Leave the route out of the policy, set `directory.kind` to `postgres`, or name an organization of the database.',
  ],
  account_out_of_reach: [
    'A token has all rights of its account. The account has a higher role here, a bypass scope, or an organization in which the caller is not an administrator.',
    'Ask an administrator of all its organizations to mint, or an operator: `sallyport tokens mint`. One account per organization avoids this.',
  ],
  enterprise_required: [
    'API tokens are minted in Enterprise organizations alone.',
    'Upgrade the organization, or use OAuth.',
  ],
  decision_refused: [
    'The policy permits the request, and the decision point that the route asks does not.',
    'Give the caller the right in the decision point. `sallyport policy explain` names the question.',
  ],
  cluster_suspended: ['An operator has suspended the cluster.', 'Resume the cluster: `sallyport clusters resume`.'],
  route_not_found: [
    'No route matches the path.',
    'Check the path, or add a route. `sallyport policy coverage` finds missing routes.',
  ],
  resource_not_found: [
    'The resource does not exist or belongs to another organization. The response never says which.',
    'Check the id and the organization in force.',
  ],
  method_not_allowed: ['The path has routes for other methods alone.', 'Use one of those in `Allow`.'],
  request_timeout: [
    'The head was not complete in time, or the body came too slowly.',
    'Send again. For slow links raise `timeouts.bodyIdleMs`, or lower `limits.minBodyBytesPerSecond`.',
  ],
  body_too_large: ['The body is larger than the route allows.', 'Send less, or raise `limits.bodyBytes` of the route.'],
  target_too_long: [
    'The target is longer than the route allows.',
    'Send it in a body, or raise `limits.targetBytes` of the route.',
  ],
  encoding_unsupported: [
    '`Content-Encoding` of a body that the gateway reads itself names something other than `identity`.',
    'Send the body as it is, without the header.',
  ],
  expectation_failed: ['`Expect` says something other than `100-continue`.', 'Leave the header out.'],
  validation_failure: [
    'A field of the body or query is invalid.',
    'Read `error.messages`: each has the field, the rule and a sentence.',
  ],
  rate_limited: [
    'A budget of requests is spent.',
    'Wait for the seconds of `Retry-After`. `RateLimit` shows the rest of the budget in each response.',
  ],
  too_many_attempts: [
    'More unknown tokens came from the client’s address than `authentication.unknownTokens` allows.',
    'Wait for the seconds of `Retry-After`, and send a token that exists. Tokens in use are not counted.',
  ],
  headers_too_large: [
    'The headers are larger than the route allows.',
    'Send fewer cookies, or raise `limits.headerBytes` of the route.',
  ],
  forwarded_head_too_large: [
    'The head, as it would be forwarded, is larger than `upstreams.<name>.headBytes` or `cluster.headBytes` allows.',
    'Send fewer cookies or a shorter target. If the backend takes more, raise the key to its limit.',
  ],
  internal: ['The gateway has a bug.', 'Report it with the request id. The log line of this id has the stack trace.'],
  method_unknown: ['The gateway does not know the method.', 'Use a method of HTTP.'],
  transfer_encoding_unknown: [
    '`Transfer-Encoding` is something other than `chunked`.',
    'Send the body with `Content-Length`, or chunked.',
  ],
  upstream_error: [
    'On the model surface, an upstream’s own 5xx was not JSON. It keeps its status and gets the format of the surface.',
    'Check the backend.',
  ],
  cluster_offline: [
    'The cluster sent no heartbeat for `cluster.staleAfterMs`, is being deleted, or cannot be reached.',
    'Try again later. `sallyport clusters list` shows the last heartbeat.',
  ],
  upstream_unavailable: [
    'The upstream cannot be reached, refused the connection, or closed it before its response.',
    'Try again. Operators check the backend and `sallyport_requests_total{status="503"}`.',
  ],
  upstream_timeout: [
    'The upstream took longer than `timeouts.connectMs` or `timeouts.firstByteMs`.',
    'Try again. If the backend needs longer, raise `timeouts` of the route.',
  ],
  event_too_large: ['The first event of a stream is over 16 MiB.', 'Check the backend.'],
  route_changed: [
    'A reload of the policy, or a new address of the cluster, led the request elsewhere before its first byte went out.',
    'Wait for the seconds of `Retry-After`, and send it again. Nothing of it has reached a backend.',
  ],
  gateway_draining: ['This gateway is stopping.', 'Try again: another gateway will respond.'],
  directory_unavailable: [
    'PostgreSQL cannot be reached, and the caches do not have the data.',
    'Try again. Operators check `/readyz` and the database.',
  ],
  directory_read_only: [
    'A mint, a revocation or a first login must write, and PostgreSQL at `database.url` is a standby or read-only.',
    'Try again once `database.url` leads to a primary. Operators check `writes` of `/readyz`.',
  ],
  lookups_busy: [
    'Lookups of uncached tokens share a part of the database connections or `issuers[].introspection.maxInFlight` questions, and too many wait.',
    'Try again. Operators check `sallyport_unknown_tokens_total` and may set `authentication.unknownTokens`.',
  ],
  audit_unavailable: [
    'With `audit.onFull: wait`, the decision could not be recorded in time.',
    'Try again. Operators check the sink and `sallyport_audit_sink_up`.',
  ],
  rate_limit_unavailable: [
    'Redis cannot be reached, and the rate limit of the route has `onError: deny`.',
    'Try again. Operators check Redis and `sallyport_rate_limit_errors_total`.',
  ],
  issuer_unavailable: [
    'The key of a JWT is not known yet and its issuer cannot be reached, or the issuer gave no answer about an opaque token.',
    'Try again. Operators check `sallyport_jwks_issuer_up` and `sallyport_introspections_total`.',
  ],
  decision_unavailable: [
    'The decision point that the route asks gave no usable answer in time, and only its yes permits the request.',
    'Try again. Operators check the decision point and `sallyport_pdp_questions_total`.',
  ],
}

export const streamRemedies: Readonly<Record<StreamFailureCode, string>> = {
  worker_disconnected: 'Ask again: the text so far may be incomplete.',
  upstream_timeout: 'Ask again. Operators compare `timeouts.streamIdleMs` with the worker’s longest silence.',
  gateway_draining: 'Ask again: another gateway will respond.',
  internal_error: 'Report it with the request id.',
  event_too_large: 'Ask for less at once. An event has at most 16 MiB.',
  access_revoked: 'Ask an operator. `sallyport explain-request` shows the cause of the end.',
  credential_expired: 'Ask again with a fresh credential.',
  access_unverified: 'Ask again. Operators check PostgreSQL, and `streams.onUnknown` and `streams.unknownMs`.',
}

export type DescribedCause = Readonly<{ cause: RefusalCause; code: RefusalCode; meaning: string; remedy: string }>

const isExact = (cause: string): cause is ExactCause => Object.hasOwn(causes, cause)

export const listExactCauses = (): readonly DescribedCause[] =>
  Object.keys(causes).flatMap((name) => describeCause(name) ?? [])

export function describeCause(name: string): DescribedCause | undefined {
  if (!isExact(name) && !Object.hasOwn(remedies, name)) return undefined
  const cause = name as RefusalCause // one of the two catalogues has it
  const code = codeOf(cause)
  const [, meaning, remedy] = isExact(cause) ? causes[cause] : ([code, ...remedies[code]] as const)
  return { cause, code, meaning, remedy }
}
