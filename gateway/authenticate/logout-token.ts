import type { Logout } from '../directory/logout.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { isSeconds, isSubject, type LogoutTrust, type TrustedIssuer } from './claims.ts'
import { chooseKey, parseObject, parseToken, verifySignature } from './signature.ts'
import type { Issuer } from './verify.ts'

export type VerifyLogout = (token: string) => Promise<Logout>

const logoutEvent = 'http://schemas.openid.net/event/backchannel-logout'

const longestAgeSeconds = 300

/** Added to the life of a logout, so that no clock and no tolerance lets a JWT outlive it. */
const marginSeconds = 3_600

/**
 * Verifies a logout token (OpenID Connect Back-Channel Logout 1.0, 2.6). Its claims are checked before its signature: a
 * token that is refused anyway asks for no key. Its header is not cached, since access tokens look for theirs there.
 */
export const createVerifyLogout =
  (issuers: ReadonlyMap<string, Issuer>, now: () => Date): VerifyLogout =>
  async (text) => {
    const token = parseToken(text)
    const said = parseObject(token.payload)
    const { trust, keys } = (typeof said.iss === 'string' ? issuers.get(said.iss) : undefined) ?? {}
    if (!trust?.logout || !keys) throw new GatewayError('unknown_issuer')
    const { types } = trust.logout
    const logout = readLogout(said, trust, trust.logout, now().getTime() / 1000)
    const isType = (typ: unknown): boolean => typeof typ === 'string' && types.includes(typ.toLowerCase())
    verifySignature(token, await chooseKey(token.headerText, keys.findKey, isType))
    return logout
  }

type RawClaims = Readonly<Record<string, unknown>>

function readLogout(
  said: RawClaims,
  { issuer, clockToleranceSeconds: tolerance }: TrustedIssuer,
  { audiences, types, longestLifeSeconds }: LogoutTrust,
  nowSeconds: number,
): Logout {
  const { aud, iat, exp, jti, sub, sid } = said
  if (!isForUsAlone(aud, audiences)) throw new GatewayError('wrong_audience')
  if (!hasLogoutEvent(said) || !isSubject(jti)) throw new GatewayError('wrong_type')
  if (!isSeconds(iat)) throw new GatewayError('time_malformed')
  if (iat > nowSeconds + tolerance) throw new GatewayError('issued_in_future')
  if (exp === undefined && !types.includes('jwt')) throw new GatewayError('expiry_missing')
  if (exp !== undefined && !isSeconds(exp)) throw new GatewayError('expiry_missing')
  if (iat < nowSeconds - tolerance - longestAgeSeconds) throw new GatewayError('expired')
  if (exp !== undefined && exp <= nowSeconds - tolerance) throw new GatewayError('expired')
  const subject = readName(sub)
  const session = readName(sid)
  if (subject === '' && session === '') throw new GatewayError('subject_invalid')
  const at = Math.floor(Math.min(iat, nowSeconds))
  return { issuer, subject, session, at, expiresAt: at + longestLifeSeconds + marginSeconds }
}

/** OpenID Connect Core 3.1.3.7, 3: a token that names another audience beside this one is not trusted either. */
function isForUsAlone(aud: unknown, audiences: readonly string[]): boolean {
  const named: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  return named.length > 0 && named.every((name) => typeof name === 'string' && audiences.includes(name))
}

function hasLogoutEvent(said: RawClaims): boolean {
  const { events } = said
  if (Object.hasOwn(said, 'nonce') || typeof events !== 'object' || events === null) return false
  const [[name, event] = [], ...others] = Object.entries(events)
  return (
    name === logoutEvent && others.length === 0 && typeof event === 'object' && event !== null && !Array.isArray(event)
  )
}

function readName(value: unknown): string {
  if (value === undefined) return ''
  if (!isSubject(value)) throw new GatewayError('subject_invalid')
  return value
}
