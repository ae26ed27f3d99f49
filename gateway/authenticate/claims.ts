import { createHash } from 'node:crypto'
import { GatewayError } from '../errors/gateway-error.ts'
import type { Carriers } from './credential.ts'

export type TrustedIssuer = Readonly<{
  issuer: string
  audiences: readonly string[]
  carriers: Carriers
  clockToleranceSeconds: number
  linkVerifiedEmail: boolean
  trustEmailVerified: boolean
  /** `typ` that a token's header must have (RFC 9068). If absent, no type is required. */
  requireType?: 'at+jwt'
}>

export type Claims = Readonly<{
  subject: string
  expiresAt: number
  notBefore: number | undefined
  issuedAt: number | undefined
  email: string | undefined
  isEmailVerified: boolean
  givenName: string | null
  familyName: string | null
  preferredUsername: string | null
}>

type RawClaims = Readonly<Record<string, unknown>>

export function readClaims(raw: RawClaims, issuer: TrustedIssuer): Claims {
  const { iss, aud, sub, exp, nbf, iat } = raw
  if (iss !== issuer.issuer) throw new GatewayError('unknown_issuer')
  if (!isAudience(aud, issuer.audiences)) throw new GatewayError('wrong_audience')
  if (!isSubject(sub)) throw new GatewayError('subject_invalid')
  if (!isSeconds(exp)) throw new GatewayError('expiry_missing')
  if (!isSecondsOrAbsent(nbf) || !isSecondsOrAbsent(iat)) throw new GatewayError('time_malformed')
  // A token with `cnf` requires a proof of possession (RFC 7800, RFC 8705, RFC 9449), which the gateway does not check.
  if (Object.hasOwn(raw, 'cnf')) throw new GatewayError('proof_missing')
  // A token with `events` reports an event and grants no right (RFC 8417, OpenID Connect Back-Channel Logout).
  if (Object.hasOwn(raw, 'events')) throw new GatewayError('not_an_access_token')
  return {
    subject: sub,
    expiresAt: exp,
    notBefore: nbf,
    issuedAt: iat,
    email: isEmail(raw.email) ? raw.email : undefined,
    isEmailVerified: raw.email_verified === true,
    givenName: readName(raw.given_name),
    familyName: readName(raw.family_name),
    preferredUsername: readName(raw.preferred_username),
  }
}

/** Throws unless a token is valid now, in epoch seconds. Cached tokens are checked at each use too. */
export function requireInForce({ expiresAt, notBefore, issuedAt }: Claims, issuer: TrustedIssuer, now: number): void {
  const tolerance = issuer.clockToleranceSeconds
  if (expiresAt <= now - tolerance) throw new GatewayError('expired')
  if (notBefore !== undefined && notBefore > now + tolerance) throw new GatewayError('not_yet_valid')
  if (issuedAt !== undefined && issuedAt > now + tolerance) throw new GatewayError('issued_in_future')
}

function isAudience(aud: unknown, accepted: readonly string[]): boolean {
  const named: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  return named.every((name) => typeof name === 'string') && named.some((name) => accepted.includes(name as string))
}

const isSeconds = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value) && Math.abs(value) <= 8.64e12

const isSecondsOrAbsent = (value: unknown): value is number | undefined => value === undefined || isSeconds(value)

/** OpenID Connect Core 2: at most 255 characters. */
const isSubject = (value: unknown): value is string => isText(value) && value.length <= 255

const isEmail = (value: unknown): value is string =>
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
export const isSameAddress = (left: string, right: string): boolean => foldAscii(left) === foldAscii(right)

const foldAscii = (text: string): string => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
