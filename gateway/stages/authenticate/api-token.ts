import { hash, timingSafeEqual } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { GatewayError, type RefusalCause } from '../../base/errors/gateway-error.ts'
import type { TokenRecord, WrongSecret } from '../../directory/directory.ts'

export type ApiToken = Readonly<{ id: number; hash: string }>

/** The largest `integer` of PostgreSQL: no token of a larger id is stored (SPEC section 2.6). */
const largestId = 2_147_483_647

/**
 * Reads the format of AdonisJS access tokens (SPEC section 2.6): `oat_` + base64url(decimal id) + `.` + base64url(40
 * characters and the decimal CRC32 of them). The checksum refuses typing errors and guesses without a database query.
 */
export function parseApiToken(token: string): ApiToken | undefined {
  const parts = takeApart(token)
  if (!parts || String(crc32(parts.random)) !== parts.checksum) return undefined
  return { id: parts.id, hash: hash('sha256', parts.random + parts.checksum, 'hex') }
}

export const nameTokenFault = (token: string): 'malformed' | 'token_checksum' | 'jwt_in_authorization' =>
  takeApart(token) ? 'token_checksum' : isJwt(token) ? 'jwt_in_authorization' : 'malformed'

type TokenParts = Readonly<{ id: number; random: string; checksum: string }>

function takeApart(token: string): TokenParts | undefined {
  const [, encodedId = '', encodedSecret = ''] = /^oat_([A-Za-z0-9_-]{2,14})\.([A-Za-z0-9_-]{54,67})$/.exec(token) ?? []
  const id = decodeCanonical(encodedId)
  const secret = decodeCanonical(encodedSecret)
  if (id === undefined || secret === undefined || !/^[1-9]\d{0,9}$/.test(id) || Number(id) > largestId) return undefined
  // AdonisJS draws from the alphabet of base64url, this gateway from base62.
  const [, random = '', checksum = ''] = /^([A-Za-z0-9_-]{40})(0|[1-9]\d{0,9})$/.exec(secret) ?? []
  return random === '' ? undefined : { id: Number(id), random, checksum }
}

const isJwt = (token: string): boolean => token.startsWith('eyJ') && token.includes('.')

/** Base64url without padding and stray bits, so that a token has one spelling. */
function decodeCanonical(encoded: string): string | undefined {
  const bytes = Buffer.from(encoded, 'base64url')
  return bytes.toString('base64url') === encoded ? bytes.toString('latin1') : undefined
}

export function isSameHash(left: string, right: string): boolean {
  const a = Buffer.from(left, 'hex')
  const b = Buffer.from(right, 'hex')
  return a.length === 32 && b.length === 32 && timingSafeEqual(a, b)
}

/**
 * Returns the record if the token may be used. Clients get the same refusal for each cause; only operators see which.
 */
export function requireUsable(
  record: TokenRecord | WrongSecret | undefined,
  { id, hash }: ApiToken,
  at: Date,
): TokenRecord {
  const refuse = (cause: RefusalCause): GatewayError => new GatewayError(cause, { tokenId: id })
  if (record === undefined) throw refuse('token_unknown')
  if (record === 'wrong-secret' || !isSameHash(hash, record.hash)) throw refuse('token_secret_wrong')
  if (record.expiresAt !== null && record.expiresAt <= at) throw refuse('token_expired')
  if (record.user.userType !== 'client-managed') throw refuse('token_of_human')
  return record
}
