import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { Logout } from '../../directory/logout.ts'
import { isSeconds, isSubject, type LogoutTrust, type TrustedIssuer } from './claims.ts'
import {
  boundLogouts,
  type FindReceipt,
  isForUsAlone,
  type RawClaims,
  readIssuedAt,
  readOnlyEvent,
  verifyEventToken,
} from './event-token.ts'
import type { Issuer } from './verify.ts'

export type VerifyLogout = (token: string, clientAddress?: string) => Promise<readonly Logout[]>

const logoutEvent = 'http://schemas.openid.net/event/backchannel-logout'

/** Back-Channel Logout 1.0, 2.4, prefers two minutes at most; the rest is for an issuer's repeats. */
const longestAgeSeconds = 300

export const createVerifyLogout =
  (issuers: ReadonlyMap<string, Issuer>, now: () => Date, findReceipt: FindReceipt): VerifyLogout =>
  (text, clientAddress) =>
    verifyEventToken(
      text,
      (named) => {
        const { trust, keys } = (typeof named === 'string' ? issuers.get(named) : undefined) ?? {}
        const { logout, longestLifeSeconds } = trust?.revocation ?? {}
        if (!trust || !keys || !logout || longestLifeSeconds === undefined) return undefined
        const read = (said: RawClaims, name: string): readonly Logout[] => {
          const nowSeconds = now().getTime() / 1000
          const { issuedAt: saidAt, ...login } = readLogout(said, trust, logout, nowSeconds)
          const ended = [{ login, longestLifeSeconds, toleranceSeconds: trust.clockToleranceSeconds }]
          return boundLogouts({ issuer: trust.issuer, name, saidAt }, ended, nowSeconds, findReceipt)
        }
        return { keys, types: logout.types, read }
      },
      clientAddress,
    )

function readLogout(
  said: RawClaims,
  { issuer, clockToleranceSeconds: tolerance }: TrustedIssuer,
  { audiences, types }: LogoutTrust,
  nowSeconds: number,
) {
  const { aud, exp, sub, sid } = said
  if (!isForUsAlone(aud, audiences)) throw new GatewayError('wrong_audience')
  const { name } = readOnlyEvent(said)
  if (name !== logoutEvent || Object.hasOwn(said, 'nonce')) throw new GatewayError('wrong_type')
  const issuedAt = readIssuedAt(said, nowSeconds, tolerance)
  if (exp === undefined && !types.includes('jwt')) throw new GatewayError('expiry_missing')
  if (exp !== undefined && !isSeconds(exp)) throw new GatewayError('expiry_missing')
  if (issuedAt < nowSeconds - tolerance - longestAgeSeconds) throw new GatewayError('expired')
  if (exp !== undefined && exp <= nowSeconds - tolerance) throw new GatewayError('expired')
  const subject = readName(sub)
  const session = readName(sid)
  if (subject === '' && session === '') throw new GatewayError('subject_invalid')
  return { issuer, subject, session, issuedAt }
}

function readName(value: unknown): string {
  if (value === undefined) return ''
  if (!isSubject(value)) throw new GatewayError('subject_invalid')
  return value
}
