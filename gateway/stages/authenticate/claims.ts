import { createHash, hash } from 'node:crypto'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { Assertions } from '../../directory/directory.ts'
import type { Login } from '../../directory/logout.ts'
import type { Carriers } from './credential.ts'
import type { ReadGranted } from './directory-rules.ts'
import { type Pointer, readPointer } from './pointer.ts'
import type { FindAbilities } from './scopes.ts'

export type TrustedIssuer = Readonly<{
  issuer: string
  audiences: readonly string[]
  audienceClaim?: AudienceClaim
  carriers: Carriers
  clockToleranceSeconds: number
  linkVerifiedEmail: boolean
  trustEmailVerified: boolean
  requireType?: 'at+jwt'
  /** Bytes of a whole JWT; absent, as many as any issuer's may have. */
  maxTokenBytes?: number
  acceptIdTokens?: boolean
  claims?: ClaimPointers
  findAbilities?: FindAbilities
  separateClients?: boolean
  readGranted?: ReadGranted
  revocation?: RevocationTrust
}>

export type RevocationTrust = Readonly<{ longestLifeSeconds: number; logout?: LogoutTrust }>

export type LogoutTrust = Readonly<{ audiences: readonly string[]; types: readonly string[] }>

/** Claims that name the audience of an issuer without `aud`: the client or, with `scp` for `scope`, the right. */
export type AudienceClaim = 'client_id' | 'azp' | 'scope'

export type ClaimPointers = Readonly<{
  subject: Pointer
  email: Pointer
  emailVerified: Pointer
  names: readonly Pointer[]
  username: Pointer
  sessionId: Pointer
}>

export type Claims = Readonly<{
  subject: string
  /** If absent, the role alone bounds the JWT. One list for all JWTs of the same scopes. */
  abilities: readonly string[] | undefined
  /** Whether the issuer separates clients and the token is a client's own, which it got without a user. */
  isClientsOwn: boolean
  expiresAt: number
  notBefore: number | undefined
  issuedAt: number | undefined
  email: string | undefined
  isEmailVerified: boolean
  givenName: string | null
  familyName: string | null
  preferredUsername: string | null
  assertions: Assertions | undefined
  login: Login | undefined
}>

type RawClaims = Readonly<Record<string, unknown>>

export function readClaims(raw: RawClaims, issuer: TrustedIssuer): Claims {
  const { iss, exp, nbf, iat } = raw
  const { audienceClaim } = issuer
  if (iss !== issuer.issuer) throw new GatewayError('unknown_issuer')
  if (!isAudience(audienceClaim ? readAudience(raw, audienceClaim) : raw.aud, issuer.audiences))
    throw new GatewayError('wrong_audience')
  const named = issuer.claims ? readPointed(raw, issuer.claims) : readStandard(raw)
  const { subject, email } = named
  if (!isSubject(subject)) throw new GatewayError('subject_invalid')
  if (!isSeconds(exp)) throw new GatewayError('expiry_missing')
  if (!isSecondsOrAbsent(nbf) || !isSecondsOrAbsent(iat)) throw new GatewayError('time_malformed')
  // A token with `cnf` requires a proof of possession (RFC 7800, RFC 8705, RFC 9449), which the gateway does not check.
  if (Object.hasOwn(raw, 'cnf')) throw new GatewayError('proof_missing')
  requireAccess(raw, issuer)
  const { readGranted, revocation } = issuer
  const claims: { -readonly [Name in keyof Claims]: Claims[Name] } = {
    subject,
    abilities: issuer.findAbilities?.(readScopes(raw)),
    isClientsOwn: issuer.separateClients === true && isClientsOwn(raw, subject),
    expiresAt: Math.min(exp, (iat ?? exp) + (revocation?.longestLifeSeconds ?? Number.POSITIVE_INFINITY)),
    notBefore: nbf,
    issuedAt: iat,
    email: isEmail(email) ? email : undefined,
    // Cognito and others write "true", which any text of a user may be.
    isEmailVerified: named.emailVerified === true,
    givenName: readName(named.givenName),
    familyName: readName(named.familyName),
    preferredUsername: readName(named.username),
    assertions: undefined,
    login: undefined,
  }
  if (readGranted) claims.assertions = assertFacts(claims, issuer, readGranted(raw))
  if (revocation) claims.login = readLogin(raw, issuer, { ...claims, exp, ...revocation })
  return claims
}

type NamedClaims = Readonly<
  Record<'subject' | 'email' | 'emailVerified' | 'givenName' | 'familyName' | 'username', unknown>
>

/** Property names that are known at compile time: reading by pointer costs a new JWT some hundred nanoseconds more. */
const readStandard = (raw: RawClaims): NamedClaims => ({
  subject: raw.sub,
  email: raw.email,
  emailVerified: raw.email_verified,
  givenName: raw.given_name,
  familyName: raw.family_name,
  username: raw.preferred_username,
})

const readPointed = (raw: RawClaims, { names, ...claims }: ClaimPointers): NamedClaims => ({
  subject: readPointer(raw, claims.subject),
  email: readPointer(raw, claims.email),
  emailVerified: readPointer(raw, claims.emailVerified),
  givenName: names[0] && readPointer(raw, names[0]),
  familyName: names[1] && readPointer(raw, names[1]),
  username: readPointer(raw, claims.username),
})

function readLogin(
  raw: RawClaims,
  trust: TrustedIssuer,
  claims: Omit<Claims, 'assertions' | 'login'> & Readonly<{ exp: number; longestLifeSeconds: number }>,
): Login {
  const { subject, exp, issuedAt: iat, longestLifeSeconds } = claims
  const { issuer } = trust
  const { sub } = raw
  const session = trust.claims ? readPointer(raw, trust.claims.sessionId) : raw.sid
  const address = verifiedAddress(claims, trust)
  return {
    issuer,
    address: address === undefined ? undefined : { issuer: addressesOf(issuer), subject: foldAddress(address) },
    // A logout token has `sub`, wherever the subject of the identity stands. Yet some issuers, and transmitters of
    // another system, name there what the identity is known by.
    subject: isSubject(sub) ? sub : subject,
    ...(isSubject(sub) && sub !== subject && { mapped: subject }),
    session: isSubject(session) ? session : undefined,
    issuedAt: iat,
    isOverlong: iat === undefined || exp - iat > longestLifeSeconds,
  }
}

function assertFacts(
  claims: Omit<Claims, 'assertions' | 'login'>,
  issuer: TrustedIssuer,
  granted: ReturnType<ReadGranted>,
): Assertions {
  const profile = {
    email: claims.email ?? placeholderEmail(identityIssuer(issuer, claims), claims.subject),
    isEmailVerified: verifiedAddress(claims, issuer) !== undefined,
    username: claims.preferredUsername,
    firstName: claims.givenName,
    lastName: claims.familyName,
  }
  // A digest, since names in caches and batches hold it: thousands of memberships are some hundred kilobytes.
  return { key: hash('sha256', JSON.stringify([profile, granted]), 'base64'), profile, ...granted }
}

export const verifiedAddress = (
  claims: Omit<Claims, 'assertions' | 'login'>,
  trust: TrustedIssuer,
): string | undefined =>
  trust.trustEmailVerified && claims.isEmailVerified && !claims.isClientsOwn ? claims.email : undefined

/** The client in RFC 9068, OpenID Connect, Okta and Entra ID. It is the subject of its own tokens (RFC 9068 2.2). */
const clientClaims = ['client_id', 'azp', 'cid', 'appid']

const isClientsOwn = (raw: RawClaims, subject: string): boolean =>
  clientClaims.some((name) => typeof raw[name] === 'string' && (raw[name] === subject || raw[name] === raw.sub))

/**
 * The issuer under which the directory knows the subject. A client may choose its id, or get one that is a user's
 * subject; apart, the two never meet (RFC 9700 4.15). An issuer has no fragment (RFC 8414 2).
 */
export const identityIssuer = ({ issuer }: TrustedIssuer, { isClientsOwn }: Pick<Claims, 'isClientsOwn'>): string =>
  isClientsOwn ? clientsOf(issuer) : issuer

export const clientsOf = (issuer: string): string => `${issuer}#client`

export const addressesOf = (issuer: string): string => `${issuer}#email`

const readAudience = (raw: RawClaims, claim: AudienceClaim): unknown =>
  claim === 'scope' ? readScopes(raw) : typeof raw[claim] === 'string' ? raw[claim] : undefined

/** Words in one text (RFC 6749 3.3), or a list; Okta and Entra ID write `scp`. */
function readScopes({ scope, scp }: RawClaims): readonly unknown[] {
  const scopes = scope ?? scp
  if (typeof scopes === 'string') return scopes.split(' ')
  return Array.isArray(scopes) ? scopes : []
}

/** Throws for a token that says itself that it is not an access token; names the rule for operators. */
function requireAccess(raw: RawClaims, { audienceClaim, acceptIdTokens = false }: TrustedIssuer): void {
  const { typ, token_use: use } = raw
  // A token with `events` reports an event and grants no right (RFC 8417, OpenID Connect Back-Channel Logout).
  if (Object.hasOwn(raw, 'events')) throw notAccess('the token has `events`')
  const isOtherKind = isWord(typ, otherTypes) || isWord(use, otherUses)
  if (isOtherKind) throw notAccess('its `typ` or `token_use` is that of a refresh, offline or logout token')
  if (!acceptIdTokens) {
    if (isWord(typ, idTypes)) throw notAccess('its `typ` is `ID`')
    if (isWord(use, idUses)) throw notAccess('its `token_use` is `id`')
    // Only the ID token beside a code or an access token has its hash (OpenID Connect Core 3.1.3.6 and 3.3.2.11).
    const hasHash = Object.hasOwn(raw, 'at_hash') || Object.hasOwn(raw, 'c_hash')
    if (Object.hasOwn(raw, 'nonce') && hasHash) throw notAccess('it has `nonce` with `at_hash` or `c_hash`')
  }
  if (audienceClaim) requireMarks(raw, acceptIdTokens)
}

const notAccess = (rule: string): GatewayError => new GatewayError('not_an_access_token', { rule })

/** Keycloak writes the kind into `typ`; Cognito and Ory into `token_use`. */
const otherTypes = ['refresh', 'offline', 'logout']
const otherUses = ['refresh', 'refresh_token', 'offline', 'logout', 'logout_token']
const idTypes = ['id', 'id_token']
const idUses = ['id', 'id_token']

const isWord = (value: unknown, words: readonly string[]): boolean =>
  typeof value === 'string' && words.includes(value.toLowerCase())

/**
 * Refuses more where a claim stands for `aud`, which would tell an ID token from an access token. Then each mark counts
 * that an access token does not have.
 */
function requireMarks(raw: RawClaims, acceptIdTokens: boolean): void {
  const { typ, token_use: use, aud } = raw
  const accepted = (words: readonly string[], ofId: readonly string[]): readonly string[] =>
    acceptIdTokens ? [...words, ...ofId] : words
  if (typ !== undefined && !isWord(typ, accepted(['bearer'], idTypes))) throw notAccess('its `typ` is not `Bearer`')
  if (use !== undefined && !isWord(use, accepted(['access', 'access_token'], idUses)))
    throw notAccess('its `token_use` is not `access`')
  if (acceptIdTokens) return
  if (['nonce', 'at_hash', 'c_hash'].some((name) => Object.hasOwn(raw, name)))
    throw notAccess('it has `nonce`, `at_hash` or `c_hash`')
  // OpenID Connect Core 2: the audience of an ID token is its client.
  const named: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  if (clientClaims.some((name) => raw[name] !== undefined && named.includes(raw[name])))
    throw notAccess('its `aud` is its own client')
}

/** Throws unless a token is valid now, in epoch seconds. Cached tokens are checked at each use too. */
export function requireInForce({ expiresAt, notBefore, issuedAt }: Claims, issuer: TrustedIssuer, now: number): void {
  const tolerance = issuer.clockToleranceSeconds
  if (expiresAt <= now - tolerance) throw new GatewayError('expired')
  if (notBefore !== undefined && notBefore > now + tolerance) throw new GatewayError('not_yet_valid')
  if (issuedAt !== undefined && issuedAt > now + tolerance) throw new GatewayError('issued_in_future')
  // Without `iat` the age is unknown, and a logout must outlive the JWT.
  if (issuer.revocation && issuedAt === undefined && expiresAt - now > issuer.revocation.longestLifeSeconds + tolerance)
    throw new GatewayError('life_unbounded')
}

export function isAudience(aud: unknown, accepted: readonly string[]): boolean {
  const named: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  return named.every((name) => typeof name === 'string') && named.some((name) => accepted.includes(name as string))
}

export const isSeconds = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value) && Math.abs(value) <= 8.64e12

const isSecondsOrAbsent = (value: unknown): value is number | undefined => value === undefined || isSeconds(value)

/** OpenID Connect Core 2: at most 255 characters. */
export const isSubject = (value: unknown): value is string => isText(value) && value.length <= 255

export const isEmail = (value: unknown): value is string =>
  isText(value) && value.length <= 254 && /^[^\s@]+@[^\s@]+$/.test(value)

const readName = (value: unknown): string | null => (isText(value) && value.length <= 255 ? value : null)

const isText = (value: unknown): value is string =>
  typeof value === 'string' && value.trim() !== '' && !/\p{Cc}/u.test(value) && value.isWellFormed()

/** An address for a user without one: unique, and never deliverable (RFC 2606 2). */
export const placeholderEmail = (issuer: string, subject: string): string =>
  `${createHash('sha256').update(`${issuer}\n${subject}`).digest('hex').slice(0, 32)}@users.invalid`

/**
 * Compares two e-mail addresses, ignoring case in ASCII alone. `toLowerCase` folds other letters into ASCII, such as
 * the Kelvin sign into "k", and would merge two mailboxes.
 */
export const isSameAddress = (left: string, right: string): boolean => foldAddress(left) === foldAddress(right)

export const foldAddress = (text: string): string => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
