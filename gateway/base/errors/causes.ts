/**
 * Exact causes of refusals, each with the client's code, a meaning and a remedy. Log, audit, metrics and console name
 * the cause; no response does.
 */
export const causes = {
  credential_missing: [
    'unauthenticated',
    'The request has no credential.',
    'Send a JWT in `x-oauth-access-token`, or an API token as `Authorization: Bearer`. A client certificate needs a name of `listeners.decision.evaluators`.',
  ],
  credential_repeated: [
    'unauthenticated',
    'The header of the credential is repeated.',
    'Send the header once. Look for a proxy that adds a second one.',
  ],
  jwt_in_authorization: [
    'unauthenticated',
    'A JWT came in `Authorization`, which is the header of API tokens.',
    'Send the JWT in `x-oauth-access-token`, without `Bearer`, or set `issuers[].tokens.bearer`.',
  ],
  carrier_not_allowed: [
    'unauthenticated',
    'The issuer of the JWT does not allow the place where it came.',
    'Send the JWT where `issuers[].tokens` of its issuer allows it.',
  ],
  token_in_oauth_header: [
    'unauthenticated',
    'An API token came in `x-oauth-access-token`, which is the header of JWTs.',
    'Send the API token as `Authorization: Bearer`.',
  ],
  subprotocol_alone: [
    'unauthenticated',
    'The handshake offers a JWT as its only subprotocol.',
    'Offer the subprotocol of the application too, because the server must choose one.',
  ],
  subprotocol_repeated: [
    'headers_malformed',
    'The handshake offers more than one JWT as subprotocol.',
    'Offer one JWT, beside the subprotocol of the application.',
  ],
  credential_cookie_repeated: [
    'headers_malformed',
    'The cookie that carries a JWT is repeated, or several such cookies came.',
    'Clear the cookie and set it once. A page of a sibling domain may have set the other one.',
  ],
  malformed: [
    'unauthenticated',
    'The credential is not a JWT, or not an API token, as its header promises. It may be cut or padded.',
    'Compare the credential with the original.',
  ],
  encrypted: [
    'unauthenticated',
    'The token is encrypted: it has five parts (JWE). Its issuer made it for another API, which alone can read it.',
    'Ask the issuer for the audience of your API. Entra ID and Auth0 encrypt tokens that are for their own APIs.',
  ],
  jwt_too_long: [
    'unauthenticated',
    'The JWT is longer than `issuers[].maxTokenBytes`, by default 16 KiB.',
    'Configure the issuer to put fewer claims into its access tokens, or raise that key.',
  ],
  algorithm_not_allowed: [
    'unauthenticated',
    'The JWT names an algorithm other than RS256, PS256, ES256, EdDSA and Ed25519.',
    'Configure the issuer to sign with one of these.',
  ],
  wrong_type: [
    'unauthenticated',
    'The `typ` of the JWT is neither `JWT` nor `at+jwt`, also written `application/…`, or it is not the one of `issuers[].requireType`. At the listener for signals: the token is not a logout token or a security event token, by its `typ`, `jti`, `nonce` or `events`.',
    'Send the access token. An ID token, a refresh token or a logout token does not give access.',
  ],
  critical_extension: [
    'unauthenticated',
    'The header of the JWT has `crit` or `b64`.',
    'Configure the issuer to leave the extension out.',
  ],
  unknown_issuer: [
    'unauthenticated',
    'The `iss` of the JWT equals none of `issuers[].issuer`.',
    'Compare both letter by letter, with scheme, port, realm and last slash.',
  ],
  unknown_key: [
    'unauthenticated',
    'The issuer does not list the key that signed the JWT, or lists a weak one, or one for another algorithm.',
    'Get a new token. If it fails too, compare its `kid` with the key set of the issuer.',
  ],
  ambiguous_key: [
    'unauthenticated',
    'The JWT names no `kid`, and several keys of the issuer fit.',
    'Configure the issuer to write `kid` into its tokens.',
  ],
  bad_signature: [
    'unauthenticated',
    'The key that the JWT names did not make its signature.',
    'Get a new token. A token that was changed, or that another realm signed, fails like this.',
  ],
  wrong_audience: [
    'unauthenticated',
    'The `aud` of the JWT, or the claim that stands for it, has none of `issuers[].audience`.',
    'Configure the issuer to add the audience of the configuration, or name the audience of the token there.',
  ],
  subject_invalid: [
    'unauthenticated',
    'The `sub` of the JWT, or the claim of `issuers[].claims.subject`, is missing, empty, longer than 255 characters or holds control characters.',
    'Configure the issuer to write it into its access tokens. Keycloak needs the client scope `basic` for `sub`.',
  ],
  expiry_missing: [
    'unauthenticated',
    'The `exp` of the JWT is missing or not a number.',
    'Configure the issuer to write `exp` into its tokens.',
  ],
  time_malformed: [
    'unauthenticated',
    'The `nbf` or `iat` of the JWT is not a number.',
    'Configure the issuer to write times in seconds since 1970.',
  ],
  proof_missing: [
    'unauthenticated',
    'The JWT has `cnf`, which binds it to its sender. The gateway checks no such proof.',
    'Configure the issuer to give bearer tokens to this client.',
  ],
  token_inactive: [
    'unauthenticated',
    'The issuer says that the opaque token is not active: it was revoked, has expired, or never existed.',
    'Get a new token. `issuers[].introspection` names the issuer that was asked.',
  ],
  claims_incomplete: [
    'unauthenticated',
    'The JWT leaves out a claim that `issuers[].directoryRules` read, and names another place for it, as Entra ID does for many groups.',
    'Configure the issuer to write app roles, or only the groups assigned to the application.',
  ],
  claims_too_many: [
    'unauthenticated',
    'More than 4,096 pairs of a value in the token and a rule of `issuers[].directoryRules` that may match it.',
    'Configure the issuer to write only the groups that the rules need, or write fewer rules for the same groups.',
  ],
  not_an_access_token: [
    'unauthenticated',
    'The token is an ID, refresh or logout token, or reports an event: it grants no access. Or the issuer does not call an opaque token an access token.',
    'Send the access token; `sallyport token inspect` names the mark. An issuer with ID tokens alone needs `issuers[].acceptIdTokens`. For an opaque token see `issuers[].introspection.requireTokenType`.',
  ],
  expired: [
    'unauthenticated',
    'The `exp` of the JWT has passed, or `issuers[].maxTokenLifeMs` since its `iat`, or it is a logout token of more than 5 minutes ago.',
    'Have the client refresh its token. If every token fails, compare the clocks of issuer and gateway.',
  ],
  not_yet_valid: [
    'unauthenticated',
    'The `nbf` of the JWT lies in the future.',
    'Compare the clocks of issuer and gateway.',
  ],
  issued_in_future: [
    'unauthenticated',
    'The `iat` of the JWT lies in the future.',
    'Compare the clocks of issuer and gateway.',
  ],
  life_unbounded: [
    'unauthenticated',
    'The JWT has no `iat`, and its issuer has `logout` or its `exp` lies further ahead than `issuers[].maxTokenLifeMs`.',
    'Configure the issuer to write `iat` into its tokens.',
  ],
  signed_out: [
    'unauthenticated',
    'The issuer or a transmitter told of a logout of the subject or session, and the JWT is not newer, has no `iat`, or lives longer than `issuers[].maxTokenLifeMs`.',
    'Log in again. `logouts` has what the issuer told.',
  ],
  token_checksum: [
    'unauthenticated',
    'The checksum at the end of the API token does not fit: a character is wrong or missing.',
    'Copy the token again.',
  ],
  user_gone: [
    'unauthenticated',
    'The user of an open exchange was disabled or deleted, or the identity or token has another user now.',
    'Enable the user, or get a new credential. The exchange was permitted when it began.',
  ],
  session_ended: [
    'unauthenticated',
    'An operator ended the open exchange with `sallyport sessions end`.',
    'Send the request again: the credential itself may still be good.',
  ],
  key_withdrawn: [
    'unauthenticated',
    'The issuer no longer lists the key that signed the JWT of an open exchange.',
    'Get a new token.',
  ],
  token_unknown: [
    'unauthenticated',
    'The directory has no API token with this id: it was revoked or never existed.',
    'Mint a new one: `sallyport tokens mint`.',
  ],
  token_secret_wrong: [
    'unauthenticated',
    'The directory has an API token with this id, but with another secret.',
    'Copy the token again. Many of these from one address are guesses.',
  ],
  token_expired: ['unauthenticated', 'The API token has expired.', 'Mint a new one: `sallyport tokens mint`.'],
  token_of_human: [
    'unauthenticated',
    'The API token belongs to a human, and only service accounts have API tokens.',
    'Mint a token for a service account, or send the JWT of the human.',
  ],
  user_declined: [
    'unauthenticated',
    'At a first login the database did not store the user: a trigger refused the insert.',
    'Check the triggers of the adopted users table.',
  ],
  user_conflict: [
    'unauthenticated',
    'At a first login the user or identity already exists. The user may be hidden or disabled.',
    'Look for a user with the e-mail of the token, or an identity with its issuer and subject.',
  ],
  user_removed: [
    'unauthenticated',
    'The identity was removed from the database, and with `directory.kind: both` its JWT creates no user again.',
    'To let it in again, create the identity, or delete its note in `sallyport_directory.removed_identities`.',
  ],
  minter_gone: ['unauthenticated', 'The user who mints is no longer in the directory.', 'Log in again.'],
  parent_token_gone: [
    'unauthenticated',
    'The API token that mints, or one that it came from, has been revoked.',
    'Mint with another token.',
  ],
  organization_header_malformed: [
    'invalid_organization_id',
    '`x-organization-id` is not a positive integer, or is repeated. Or it is missing where a program of `listeners.decision.evaluators` asks.',
    'Send the id as `GET /users/me` shows it, once.',
  ],
  organization_cookie_malformed: [
    'invalid_organization_id',
    'The cookie `current-org-id` is not a positive integer, is repeated, or is written so that servers read it differently.',
    'Clear the cookie, and set it plainly.',
  ],
  organization_contradiction: [
    'invalid_organization_id',
    '`x-organization-id` names another organization than the path or host.',
    'Leave the header out on routes that name the organization in their path or host.',
  ],
  header_not_a_member: [
    'not_a_member',
    'The caller is not a member of the organization in `x-organization-id`, or it does not exist.',
    'Send one of the organizations of `GET /users/me`, or give the user a role there.',
  ],
  cookie_not_a_member: [
    'not_a_member',
    'The caller is not a member of the organization in the cookie `current-org-id`, or it does not exist.',
    'Clear the cookie: it may be from an earlier user of the browser, or from a lost membership.',
  ],
  path_not_a_member: [
    'organization_forbidden',
    'The caller is not a member of the organization in the path, or it does not exist.',
    'Give the user a role there.',
  ],
  host_not_a_member: [
    'organization_forbidden',
    'The caller is not a member of the organization that the host names, or it does not exist.',
    'Give the user a role there. A slug that is not a lower-case DNS label is never named so.',
  ],
  membership_lost: [
    'organization_forbidden',
    'The caller lost the membership during the request.',
    'Give the user a role there.',
  ],
  no_organization: [
    'role_insufficient',
    'The route requires a role, and the caller is in no organization.',
    'Give the user a role in an organization.',
  ],
  role_unknown: [
    'role_insufficient',
    'The role that the caller holds is not one of `policies/roles.yaml`.',
    'Add the role to the policy, or give the user a role that is there.',
  ],
  role_too_low: [
    'role_insufficient',
    'The role that the caller holds in the organization in force is lower than the route requires.',
    'Name another organization, or give the user a higher role. `sallyport policy explain` shows the check.',
  ],
  no_organization_for_ability: [
    'ability_missing',
    'The route requires an ability, which a role in an organization grants, and the caller is in no organization.',
    'Give the user a role in an organization.',
  ],
  role_ability_missing: [
    'ability_missing',
    'The role that the caller holds lacks the ability that the route requires.',
    'Give the user a role that has it. `sallyport policy matrix` shows which.',
  ],
  token_ability_missing: [
    'ability_missing',
    'The credential lacks the ability that the route requires, or one of the token that it mints.',
    'Mint a token with a wider scope, by a credential that has all abilities of it.',
  ],
  token_read_only: [
    'ability_missing',
    'The API token has no ability that writes, and this endpoint writes.',
    'Mint a token with a scope that writes.',
  ],
  token_line_too_long: [
    'ability_missing',
    'The API token ends the longest allowed chain of tokens that minted each other.',
    'Mint with an earlier token, or as an operator: `sallyport tokens mint`.',
  ],
  account_has_bypass_scope: [
    'account_out_of_reach',
    'The account has a platform role that is a bypass scope, which no administrator may lend.',
    'Mint as an operator: `sallyport tokens mint`.',
  ],
  account_in_foreign_organization: [
    'account_out_of_reach',
    'The account is a member of an organization in which the caller is not an administrator.',
    'Use one account per organization, or mint as an operator: `sallyport tokens mint`.',
  ],
  account_role_higher: [
    'account_out_of_reach',
    'The account has a higher role in this organization than the caller.',
    'Ask an owner to mint.',
  ],
  resource_id_malformed: [
    'resource_not_found',
    'The id in the path is not a positive integer.',
    'Send the id as the list of these resources shows it.',
  ],
  resource_unknown: ['resource_not_found', 'The directory has no resource with this id.', 'Check the id.'],
  resource_foreign: [
    'resource_not_found',
    'The resource belongs to another organization than the one in force.',
    'Name the organization of the resource, if the caller is a member.',
  ],
  resource_private: [
    'resource_not_found',
    'The resource is private: the caller neither owns it nor has the role that its kind names.',
    'Ask the owner to share it, or give the caller the role.',
  ],
  no_organization_for_resource: [
    'resource_not_found',
    'The caller is in no organization, and the resource belongs to one.',
    'Give the user a role in the organization of the resource.',
  ],
  cluster_unknown: [
    'resource_not_found',
    'The directory has no cluster with this id.',
    'Check the id: `sallyport clusters list`.',
  ],
  cluster_foreign: [
    'resource_not_found',
    'The cluster belongs to another organization than the one in force.',
    'Name the organization of the cluster, if the caller is a member.',
  ],
  user_not_a_member: [
    'resource_not_found',
    'The user in the path is not a member of the organization.',
    'Check the id, or give the user a role there.',
  ],
  token_not_of_user: [
    'resource_not_found',
    'The user has no API token with this id, or it is already revoked.',
    'List the tokens of the user: `sallyport tokens list --user ID`.',
  ],
  cluster_stale: [
    'cluster_offline',
    'The last heartbeat of the cluster is older than `cluster.staleAfterMs`, or there was none.',
    'Check the agent of the cluster. `sallyport clusters list` shows the last heartbeat.',
  ],
  cluster_deleting: ['cluster_offline', 'The cluster is being deleted.', 'Use another cluster.'],
  target_not_origin_form: [
    'target_malformed',
    'The target does not begin with a slash, or names another host than `Host`.',
    'Send the plain path.',
  ],
  target_not_visible: [
    'target_malformed',
    'The target holds a fragment, or a byte that is not visible ASCII.',
    'Percent-encode all characters but letters, digits and `-._~`.',
  ],
  target_backslash: ['target_malformed', 'The path holds a backslash.', 'Send slashes.'],
  target_empty_segment: [
    'target_malformed',
    'The path holds two slashes in a row, plain or encoded.',
    'Send one slash. Look for a base address that ends in one.',
  ],
  target_bad_escape: [
    'target_malformed',
    'A percent sign of the path is not followed by two hexadecimal digits.',
    'Write a percent sign as `%25`.',
  ],
  target_bad_utf8: ['target_malformed', 'The escapes of the path are not UTF-8.', 'Encode the path in UTF-8.'],
  target_nested_escapes: ['target_malformed', 'The path is percent-encoded more than eight times.', 'Encode it once.'],
  target_hidden_byte: [
    'target_malformed',
    'The path holds an encoded control byte or backslash, or a slash that is encoded twice.',
    'Leave it out, or send it in the query or body.',
  ],
  target_dot_segment: [
    'target_malformed',
    'A segment of the path is `.` or `..`, or only a path parameter, plain or encoded.',
    'Resolve the path before it is sent.',
  ],
  target_encoded_slash: [
    'target_malformed',
    'The path holds an encoded slash, and its route refuses them.',
    'Set `encodedSlashes: allow` for the route whose backend needs them.',
  ],
  target_like_stricter_row: [
    'target_misreadable',
    'A server that ignores case, escapes or parameters would read the path as that of a route that is stricter, or counted apart.',
    'Send the path as the documentation of the API spells it.',
  ],
  target_like_other_id: [
    'target_misreadable',
    'A server that splits, shortens or joins names of the path would read another id than the one that was judged.',
    'Send the path as the documentation of the API spells it, without slashes or dots alone in names.',
  ],
  query_like_guarded_param: [
    'target_misreadable',
    'The query has a parameter with the name of a path parameter that names what is guarded, or asked about.',
    'Leave it out, or rename the parameter of the path in the policy and the backend.',
  ],
  target_like_dot_segment: [
    'target_misreadable',
    'A server that normalizes letters would find a dot segment in the path.',
    'Send plain letters.',
  ],
  target_with_many_readings: [
    'target_misreadable',
    'Servers could read the path in more ways than the gateway can check.',
    'Send a shorter path, with fewer escapes and letters beyond ASCII.',
  ],
  http_version: ['headers_malformed', 'The HTTP version is neither 1.0 nor 1.1.', 'Send HTTP/1.1.'],
  host_malformed: [
    'headers_malformed',
    '`Host` is missing, repeated or not a host.',
    'Send one `Host` with a name or address, and a port.',
  ],
  header_misspelt: [
    'headers_malformed',
    'A header that frames the request has another character in place of `-`.',
    'Send it in its usual spelling.',
  ],
  framing_contradiction: [
    'headers_malformed',
    'The length of the body is repeated, given in two ways, or not a number.',
    'Send `Content-Length` or `Transfer-Encoding: chunked`, once.',
  ],
  body_malformed: [
    'headers_malformed',
    'The body does not end as its framing says.',
    'Send the complete body, in complete chunks.',
  ],
  original_request_missing: [
    'ambiguous_target',
    'The proxy named no original method and target.',
    'Configure the proxy as its page under `docs/guides/external-authorization/` says.',
  ],
  original_request_contradiction: [
    'ambiguous_target',
    'The headers of the proxy name two different original requests.',
    'Let the proxy remove the `X-Forwarded-*` and `X-Original-*` of its clients.',
  ],
  original_header_repeated: [
    'ambiguous_target',
    'A header that names the original request is repeated, or has another spelling.',
    'Let the proxy remove these headers of its clients.',
  ],
  original_host_malformed: [
    'ambiguous_target',
    '`X-Forwarded-Host` is not a host.',
    'Let the proxy send the host of the original request.',
  ],
  pdp_unanswered: [
    'decision_unavailable',
    'The decision point could not be reached, failed with a 5xx, or did not send its whole answer within `decisionPoints.<name>.deadlineMs`.',
    'Check the decision point and the network between. The `error` of the log line names the failure.',
  ],
  pdp_unusable: [
    'decision_unavailable',
    'The decision point answered otherwise than AuthZEN 1.0 asks: not 200, not JSON, too large, a redirect, no literal `true` or `false`, or another number of decisions.',
    'Compare `decisionPoints.<name>.url` and its headers with the decision point. The `error` of the log line says what is wrong.',
  ],
  pdp_circuit_open: [
    'decision_unavailable',
    'The last questions of the organization to the decision point failed, so it is asked once a second until one succeeds.',
    'Check the decision point. Its first answer closes the circuit.',
  ],
  pdp_busy: [
    'decision_unavailable',
    'The organization has `maxInFlightPerOrganization` questions under way, or all have `maxInFlight`, and none ended within the deadline.',
    'Make the decision point faster, or raise the limits.',
  ],
  cluster_address_malformed: [
    'upstream_unavailable',
    'The base address of the cluster is not an HTTP URL.',
    'Correct `clusters.base_url` in the database.',
  ],
  upstream_unreachable: [
    'upstream_unavailable',
    'No connection to the upstream could be made: its name, its address, its port or TLS failed.',
    'Check the upstream and the network between. The `error` of the log line names the failure.',
  ],
  cluster_unreachable: [
    'upstream_unavailable',
    'No connection to the cluster could be made: its name, its address, its port, TLS or `cluster.networks` failed.',
    'Check the cluster and the network between. The `error` of the log line names the failure.',
  ],
  upstream_no_response: [
    'upstream_unavailable',
    'The upstream closed the connection before its response.',
    'Check the log of the upstream: it may have crashed or restarted.',
  ],
  upstream_pool_exhausted: [
    'upstream_unavailable',
    'All connections to the upstream are in use, and the queue for them is full or too slow.',
    'Add instances of the upstream, or make it faster.',
  ],
  upstream_share_full: [
    'upstream_unavailable',
    'As many requests of this organization wait for this model as may.',
    'Make the model faster, or raise `limits.waitingPerOrganization`.',
  ],
  upstream_protocol_error: [
    'upstream_unavailable',
    'The response of the upstream is not valid HTTP/1.1.',
    'Check the scheme and port of `upstreams.<name>.url`.',
  ],
} as const satisfies Record<string, readonly [code: string, meaning: string, remedy: string]>

type Causes = typeof causes

export type ExactCause = keyof Causes

export type CodeWithExactCauses = Exclude<Causes[ExactCause][0], 'headers_malformed'>
