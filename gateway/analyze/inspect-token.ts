import { GatewayError, type RefusalCause } from '../base/errors/gateway-error.ts'
import { type Directory, type KnownUser, nameUser } from '../directory/directory.ts'
import type { Login } from '../directory/logout.ts'
import { redact } from '../observe/log/redact.ts'
import { nameTokenFault, parseApiToken, requireUsable } from '../stages/authenticate/api-token.ts'
import { requireInForce } from '../stages/authenticate/claims.ts'
import {
  ambientCarrier,
  type Carrier,
  type Carriers,
  type RawCredential,
  readHeaderCredential,
  requireCarrier,
} from '../stages/authenticate/credential.ts'
import { parseObject, parseToken } from '../stages/authenticate/signature.ts'
import type { Verify } from '../stages/authenticate/verify.ts'

/** One check of a token, in the order of the gateway; `unknown` was not reached, or could not be made. */
export type TokenCheck = Readonly<{ check: string; result: 'pass' | 'fail' | 'unknown' }>

export type TokenInspection = Readonly<{
  kind: 'jwt' | 'opaque' | 'api-token'
  cause: RefusalCause | null
  /** The rule that spoke, where the cause has several. */
  rule?: string
  checks: readonly TokenCheck[]
  facts: Readonly<Record<string, unknown>>
}>

const jwtChecks = [
  ...['carrier', 'syntax', 'issuer known', 'algorithm, typ and crit', 'key known', 'signature', 'audience'],
  ...['claims', 'cnf and events', 'time bounds', 'logouts', 'user'],
]
const opaqueChecks = [
  ...['carrier', 'syntax', 'issuer asked', 'active', 'issuer known', 'audience', 'claims', 'cnf and events'],
  ...['access token', 'time bounds', 'logouts', 'user'],
]
const apiTokenChecks = ['carrier', 'syntax', 'token known', 'secret', 'time bounds', 'owner']

const checksOf = { jwt: jwtChecks, opaque: opaqueChecks, 'api-token': apiTokenChecks } as const

const failedChecks: Readonly<Partial<Record<RefusalCause, string>>> = {
  credential_missing: 'carrier',
  jwt_in_authorization: 'carrier',
  carrier_not_allowed: 'carrier',
  token_in_oauth_header: 'carrier',
  malformed: 'syntax',
  encrypted: 'syntax',
  jwt_too_long: 'syntax',
  token_checksum: 'syntax',
  unknown_issuer: 'issuer known',
  algorithm_not_allowed: 'algorithm, typ and crit',
  critical_extension: 'algorithm, typ and crit',
  wrong_type: 'algorithm, typ and crit',
  unknown_key: 'key known',
  ambiguous_key: 'key known',
  issuer_unavailable: 'key known',
  bad_signature: 'signature',
  wrong_audience: 'audience',
  subject_invalid: 'claims',
  expiry_missing: 'claims',
  time_malformed: 'claims',
  proof_missing: 'cnf and events',
  not_an_access_token: 'cnf and events',
  token_inactive: 'active',
  expired: 'time bounds',
  not_yet_valid: 'time bounds',
  issued_in_future: 'time bounds',
  life_unbounded: 'time bounds',
  signed_out: 'logouts',
  token_unknown: 'token known',
  token_secret_wrong: 'secret',
  token_expired: 'time bounds',
  token_of_human: 'owner',
}

export type InspectionTools = Readonly<{
  verify: Verify
  isAsked: (token: string) => boolean
  carriers: Carriers
  now: () => Date
  directory: Pick<Directory<KnownUser>, 'findByIdentity' | 'findToken'> | undefined
  hasEnded?: (login: Login) => Promise<boolean>
}>

export async function inspectToken(text: string, tools: InspectionTools): Promise<TokenInspection> {
  const { headers, isBare, ambient } = readCarrier(text, tools.carriers)
  const [bare = ''] = [...headers.oauthAccessToken, ...headers.authorization, ...(ambient ? [ambient.jwt] : [])]
  const token = bare.replace(/^bearer +/i, '')
  const kind = token.startsWith('oat_') ? 'api-token' : tools.isAsked(token) ? 'opaque' : 'jwt'
  const facts: Record<string, unknown> = {}
  try {
    const credential = ambient ?? readHeaderCredential(headers, tools.carriers)
    if (!credential) throw new GatewayError('credential_missing')
    const isWhole = await (credential.kind === 'oauth'
      ? inspectOauth(credential.jwt, isBare ? undefined : credential.carrier, tools, facts)
      : inspectApiToken(credential.token, tools, facts))
    return { kind, cause: null, checks: listChecks(kind, undefined, isWhole), facts }
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    const { exactCause: cause, details } = error
    const rule = details.rule === undefined ? {} : { rule: details.rule }
    return { kind, cause, ...rule, checks: listChecks(kind, cause, false), facts }
  }
}

type CarrierHeaders = Parameters<typeof readHeaderCredential>[0]

type CarrierLine = Readonly<{
  headers: CarrierHeaders
  isBare: boolean
  ambient?: Extract<RawCredential, Readonly<{ kind: 'oauth' }>>
}>

/** A bare token says nothing of its carrier, and is read as if it came in the header of its kind. */
function readCarrier(text: string, carriers: Carriers): CarrierLine {
  const [line = ''] = text.trim().split('\n')
  const inAuthorization = (value: string): CarrierHeaders => ({ authorization: [value], oauthAccessToken: [] })
  const inOwnHeader = (value: string): CarrierHeaders => ({ authorization: [], oauthAccessToken: [value] })
  const none: CarrierHeaders = { authorization: [], oauthAccessToken: [] }
  const [, written = '', value = ''] = /^([a-z0-9-]+): *(.*)$/i.exec(line) ?? []
  const name = written.toLowerCase()
  if (name === 'authorization') return { headers: inAuthorization(value), isBare: false }
  if (name === 'x-oauth-access-token') return { headers: inOwnHeader(value), isBare: false }
  const carrier = ambientCarrier('ambient', name)
  if (carriers.has(carrier)) return { headers: none, isBare: false, ambient: { kind: 'oauth', jwt: value, carrier } }
  if (/^bearer /i.test(line)) return { headers: inAuthorization(line), isBare: false }
  if (line.startsWith('oat_')) return { headers: inAuthorization(`Bearer ${line}`), isBare: true }
  return { headers: line === '' ? none : inOwnHeader(line), isBare: true }
}

function listChecks(kind: TokenInspection['kind'], cause: RefusalCause | undefined, isWhole: boolean) {
  const names = checksOf[kind]
  const failed = cause === undefined ? names.length : names.indexOf(nameFailedCheck(kind, cause))
  const last = isWhole || cause !== undefined ? names.length : kind === 'api-token' ? 2 : names.indexOf('logouts')
  return names.map((check, index): TokenCheck => {
    if (index === failed) return { check, result: 'fail' }
    return { check, result: index < failed && index < last ? 'pass' : 'unknown' }
  })
}

function nameFailedCheck(kind: TokenInspection['kind'], cause: RefusalCause): string {
  if (kind === 'opaque' && cause === 'issuer_unavailable') return 'issuer asked'
  if (kind === 'opaque' && cause === 'not_an_access_token') return 'access token'
  return failedChecks[cause] ?? 'user'
}

async function inspectOauth(
  jwt: string,
  carrier: Carrier | undefined,
  { verify, isAsked, now, directory, hasEnded }: InspectionTools,
  facts: Record<string, unknown>,
) {
  if (!isAsked(jwt)) Object.assign(facts, readFacts(jwt))
  const { issuer, claims, proof } = await verify(jwt, carrier)
  if (carrier) requireCarrier(issuer.trust, carrier)
  requireInForce(claims, issuer.trust, Math.floor(now().getTime() / 1000))
  if (isAsked(jwt)) Object.assign(facts, { iss: proof.issuer, sub: proof.subject, exp: claims.expiresAt })
  if (claims.abilities) facts.abilities = claims.abilities
  if (!directory) return false
  if (claims.login && (await hasEnded?.(claims.login))) throw new GatewayError('signed_out')
  const user = await directory.findByIdentity(proof)
  Object.assign(facts, user ? describeUser(user) : { user: 'none yet: the first request creates one' })
  return true
}

function readFacts(jwt: string): Readonly<Record<string, unknown>> {
  const { iss, aud, sub, exp, nbf, iat } = parseObject(parseToken(jwt).payload)
  const said = Object.entries({ iss, aud, sub, exp, nbf, iat })
  return Object.fromEntries(said.map(([name, value]) => [name, tellClaim(value)]))
}

function tellClaim(value: unknown): string | number | undefined {
  if (typeof value === 'number' || value === undefined) return value
  return redact(typeof value === 'string' ? value : JSON.stringify(value))
}

async function inspectApiToken(token: string, { now, directory }: InspectionTools, facts: Record<string, unknown>) {
  const parsed = parseApiToken(token)
  if (!parsed) throw new GatewayError(nameTokenFault(token))
  facts.tokenId = parsed.id
  if (!directory) return false
  const record = requireUsable(await directory.findToken(parsed.id, parsed.hash), parsed, now())
  Object.assign(facts, { name: record.name, abilities: record.abilities, expiresAt: record.expiresAt })
  Object.assign(facts, describeUser(record.user))
  return true
}

const describeUser = (user: KnownUser) => ({
  user: nameUser(user),
  userKind: user.userType,
  memberships: user.roles.map(
    ({ role, organization }) => `${role} ${organization ? `in ${organization.id}` : 'of the platform'}`,
  ),
})
