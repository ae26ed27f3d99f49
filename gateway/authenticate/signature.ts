import {
  compactVerify,
  errors,
  type FlattenedJWSInput,
  type JWTVerifyGetKey,
  type ProtectedHeaderParameters,
} from 'jose'
import { GatewayError } from '../errors/gateway-error.ts'

/** No `none` and no HMAC: a public key must never serve as a shared secret (RFC 8725 3.1). */
export const algorithms = ['RS256', 'PS256', 'ES256', 'EdDSA']

const tokenLimitBytes = 8192

/** A key for a token's header; rejects with jose's no-match errors, or with `issuer_unavailable`. */
export type FindKey = JWTVerifyGetKey

/** What a JWS says before anything about it is proven. */
export type UnverifiedToken = Readonly<{ header: Readonly<Record<string, unknown>>; payload: Uint8Array }>

/** Takes a compact JWS apart strictly: jose alone would take padding, spaces and stray bits in its base64url. */
export function parseToken(token: string): UnverifiedToken {
  if (token.length > tokenLimitBytes) throw new GatewayError('unauthenticated')
  const parts = token.split('.')
  const [header, payload, signature] = parts.map(decodeCanonical)
  if (parts.length !== 3 || !header || !payload || !signature) throw new GatewayError('unauthenticated')
  return { header: checkHeader(parseObject(header)), payload }
}

function decodeCanonical(part: string): Buffer | undefined {
  const bytes = Buffer.from(part, 'base64url')
  return bytes.length > 0 && bytes.toString('base64url') === part ? bytes : undefined
}

/** A JSON object in strict UTF-8; a byte order mark is no JSON. */
export function parseObject(bytes: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  } catch (error) {
    throw new GatewayError('unauthenticated', { cause: error })
  }
  throw new GatewayError('unauthenticated')
}

function checkHeader(header: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { alg, typ, crit, b64 } = header
  const isAllowed = typeof alg === 'string' && algorithms.includes(alg)
  // RFC 8725 3.11: a token made for another purpose is none of ours.
  const isAccessToken = typ === undefined || (typeof typ === 'string' && /^(?:at\+)?jwt$/i.test(typ))
  // We understand no critical extension, so none may be asked for (RFC 7515 4.1.11).
  if (!isAllowed || !isAccessToken || crit !== undefined || b64 !== undefined) throw new GatewayError('unauthenticated')
  return header
}

/** Checks the signature with a key from `findKey` alone: `jku`, `x5u` and `jwk` in the header are never looked at. */
export async function verifySignature(token: string, findKey: FindKey): Promise<Uint8Array> {
  try {
    const { payload } = await compactVerify(
      token,
      (header: ProtectedHeaderParameters, jws: FlattenedJWSInput) =>
        findKey({ ...header, alg: String(header.alg) }, jws),
      { algorithms },
    )
    return payload
  } catch (error) {
    if (error instanceof GatewayError) throw error
    if (error instanceof errors.JOSEError || error instanceof TypeError)
      throw new GatewayError('unauthenticated', { cause: error })
    throw error
  }
}
