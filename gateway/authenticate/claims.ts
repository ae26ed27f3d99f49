import { GatewayError } from '../errors/gateway-error.ts'

/** An identity provider whose tokens are accepted. */
export type TrustedIssuer = Readonly<{
  issuer: string
  /** One of these must be in `aud`. */
  audiences: readonly string[]
  clockToleranceSeconds: number
  linkVerifiedEmail: boolean
}>

/** The claims that count, checked. */
export type Claims = Readonly<{
  subject: string
  expiresAt: Date
  email: string | undefined
  isEmailVerified: boolean
  givenName: string | null
  familyName: string | null
  preferredUsername: string | null
}>

type RawClaims = Readonly<Record<string, unknown>>

/** Judges the claims of a token whose signature held (SPEC section 2.3). `now` in epoch seconds. */
export function readClaims(raw: RawClaims, issuer: TrustedIssuer, now: number): Claims {
  const { iss, aud, sub, exp, nbf, iat } = raw
  const tolerance = issuer.clockToleranceSeconds
  const isSound =
    iss === issuer.issuer &&
    isAudience(aud, issuer.audiences) &&
    isSubject(sub) &&
    isSeconds(exp) &&
    exp > now - tolerance &&
    (nbf === undefined || (isSeconds(nbf) && nbf <= now + tolerance)) &&
    (iat === undefined || (isSeconds(iat) && iat <= now + tolerance))
  if (!isSound) throw new GatewayError('unauthenticated')
  return {
    subject: sub,
    expiresAt: new Date(exp * 1000),
    email: isEmail(raw.email) ? raw.email : undefined,
    isEmailVerified: raw.email_verified === true,
    givenName: readName(raw.given_name),
    familyName: readName(raw.family_name),
    preferredUsername: readName(raw.preferred_username),
  }
}

function isAudience(aud: unknown, accepted: readonly string[]): boolean {
  const named: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  return named.every((name) => typeof name === 'string') && named.some((name) => accepted.includes(name as string))
}

// A Date holds 8.64e12 seconds; anything past that is not a time.
const isSeconds = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value) && Math.abs(value) <= 8.64e12

/** OpenID Connect Core 2: at most 255 characters; control characters are nobody's name. */
const isSubject = (value: unknown): value is string => isText(value) && value.length <= 255

const isEmail = (value: unknown): value is string =>
  isText(value) && value.length <= 254 && /^[^\s@]+@[^\s@]+$/.test(value)

const readName = (value: unknown): string | null => (isText(value) && value.length <= 255 ? value : null)

/** A string that PostgreSQL can hold and a log line can show. */
const isText = (value: unknown): value is string =>
  typeof value === 'string' && value.trim() !== '' && !/\p{Cc}/u.test(value) && value.isWellFormed()
