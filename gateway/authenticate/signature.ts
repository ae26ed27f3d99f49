import { isUtf8 } from 'node:buffer'
import { constants, KeyObject, verify } from 'node:crypto'
import { types } from 'node:util'
import { errors, type FlattenedJWSInput, type JWTHeaderParameters, type JWTVerifyGetKey } from 'jose'
import { GatewayError } from '../errors/gateway-error.ts'

/** No `none` and no HMAC: a public key must never serve as a shared secret (RFC 8725 3.1). */
export const algorithms = ['RS256', 'PS256', 'ES256', 'EdDSA']

const tokenLimitBytes = 8192

/** A key for a token's header; rejects with jose's no-match errors, or with `issuer_unavailable`. */
export type FindKey = JWTVerifyGetKey

/** What a JWS says before anything about it is proven. */
export type UnverifiedToken = Readonly<{
  header: Readonly<Record<string, unknown>>
  payload: Buffer
  /** What the signature is about (RFC 7515 5.1). */
  signed: string
  signature: Buffer
}>

/** Takes a compact JWS apart strictly: most libraries would take padding, spaces and stray bits in its base64url. */
export function parseToken(token: string): UnverifiedToken {
  if (token.length > tokenLimitBytes) throw new GatewayError('unauthenticated')
  const parts = token.split('.')
  const [header, payload, signature] = parts.map(decodeCanonical)
  if (parts.length !== 3 || !header || !payload || !signature) throw new GatewayError('unauthenticated')
  const signed = token.slice(0, token.lastIndexOf('.'))
  return { header: checkHeader(parseObject(header)), payload, signed, signature }
}

function decodeCanonical(part: string): Buffer | undefined {
  const bytes = Buffer.from(part, 'base64url')
  return bytes.length > 0 && bytes.toString('base64url') === part ? bytes : undefined
}

/** A JSON object in strict UTF-8; a byte order mark is no JSON. */
export function parseObject(bytes: Buffer): Readonly<Record<string, unknown>> {
  if (!isUtf8(bytes)) throw new GatewayError('unauthenticated')
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'))
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
export async function verifySignature(token: UnverifiedToken, findKey: FindKey): Promise<Buffer> {
  const { header, payload, signed, signature } = token
  const alg = String(header.alg)
  if (!isGenuine(alg, await chooseKey({ ...header, alg }, findKey), signed, signature))
    throw new GatewayError('unauthenticated')
  return payload
}

async function chooseKey(header: JWTHeaderParameters, findKey: FindKey): Promise<KeyObject> {
  try {
    return toKeyObject(await findKey(header, noToken))
  } catch (error) {
    if (error instanceof GatewayError) throw error
    if (error instanceof errors.JOSEError || error instanceof TypeError)
      throw new GatewayError('unauthenticated', { cause: error })
    throw error
  }
}

/** Keys are chosen by the header alone. */
const noToken: FlattenedJWSInput = { payload: '', signature: '' }

const keyObjects = new WeakMap<object, KeyObject>()

function toKeyObject(key: Awaited<ReturnType<FindKey>>): KeyObject {
  if (key instanceof KeyObject) return key
  if (!types.isCryptoKey(key)) throw new TypeError('not a key of a set')
  const known = keyObjects.get(key)
  if (known) return known
  const made = KeyObject.from(key)
  keyObjects.set(key, made)
  return made
}

/** RFC 7518 3.3-3.5 and RFC 8037 3.1: the one kind of key that each algorithm takes, and how its signatures are made. */
const signatures: Readonly<Record<string, Readonly<{ keyType: string; digest: string | null; options: object }>>> = {
  RS256: { keyType: 'rsa', digest: 'sha256', options: { padding: constants.RSA_PKCS1_PADDING } },
  PS256: { keyType: 'rsa', digest: 'sha256', options: { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 } },
  ES256: { keyType: 'ec', digest: 'sha256', options: { dsaEncoding: 'ieee-p1363' } },
  EdDSA: { keyType: 'ed25519', digest: null, options: {} },
}

/** By node:crypto, at once: on its way through WebCrypto and its threads a signature costs four times as much. */
function isGenuine(alg: string, key: KeyObject, signed: string, signature: Buffer): boolean {
  const { keyType, digest, options } = signatures[alg] ?? {}
  if (key.type !== 'public' || keyType === undefined || key.asymmetricKeyType !== keyType) return false
  if (keyType === 'ec' && key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') return false
  return verify(digest, Buffer.from(signed, 'latin1'), { key, ...options }, signature)
}
