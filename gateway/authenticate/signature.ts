import { isUtf8 } from 'node:buffer'
import { constants, createVerify, KeyObject, type VerifyKeyObjectInput, verify } from 'node:crypto'
import { types } from 'node:util'
import { errors, type FlattenedJWSInput, type JWTHeaderParameters, type JWTVerifyGetKey } from 'jose'
import { GatewayError, type RefusalCause } from '../errors/gateway-error.ts'

/** No `none` and no HMAC: a public key must never serve as a shared secret (RFC 8725 3.1). */
export const algorithms = ['RS256', 'PS256', 'ES256', 'EdDSA']

const tokenLimitBytes = 8192

/** A key for a token's header; rejects with jose's no-match errors, or with `issuer_unavailable`. */
export type FindKey = JWTVerifyGetKey

/** What a JWS says before anything about it is proven. */
export type UnverifiedToken = Readonly<{
  /** As it stands in the token: to be read by `chooseKey`. */
  headerText: string
  payload: Buffer
  /** What the signature is about (RFC 7515 5.1). */
  signed: string
  signature: Buffer
}>

/** Takes a compact JWS apart strictly: most libraries would take padding, spaces and stray bits in its base64url. */
export function parseToken(token: string): UnverifiedToken {
  if (token.length > tokenLimitBytes) throw new GatewayError('jwt_too_long')
  const payloadAt = token.indexOf('.') + 1
  const signatureAt = token.indexOf('.', payloadAt) + 1
  if (payloadAt === 0 || signatureAt === 0) throw malformed(token)
  const payload = decodeCanonical(token.slice(payloadAt, signatureAt - 1))
  // A dot more is no base64url.
  const signature = decodeCanonical(token.slice(signatureAt))
  return { headerText: token.slice(0, payloadAt - 1), payload, signed: token.slice(0, signatureAt - 1), signature }
}

/** Not of three parts: an API token in the wrong header is a common mistake. */
const malformed = (token: string): GatewayError =>
  new GatewayError(token.startsWith('oat_') ? 'token_in_oauth_header' : 'malformed')

function decodeCanonical(part: string): Buffer {
  const bytes = Buffer.from(part, 'base64url')
  if (bytes.length === 0 || bytes.toString('base64url') !== part) throw new GatewayError('malformed')
  return bytes
}

/** A JSON object in strict UTF-8; a byte order mark is no JSON. */
export function parseObject(bytes: Buffer): Readonly<Record<string, unknown>> {
  if (!isUtf8(bytes)) throw new GatewayError('malformed')
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'))
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  } catch (error) {
    throw new GatewayError('malformed', { cause: error })
  }
  throw new GatewayError('malformed')
}

function readHeader(text: string): JWTHeaderParameters {
  const header = parseObject(decodeCanonical(text))
  const { alg, typ, crit, b64 } = header
  const isAllowed = typeof alg === 'string' && algorithms.includes(alg)
  // RFC 8725 3.11: a token made for another purpose is none of ours.
  const isAccessToken = typ === undefined || (typeof typ === 'string' && /^(?:at\+)?jwt$/i.test(typ))
  // We understand no critical extension, so none may be asked for (RFC 7515 4.1.11).
  const isPlain = crit === undefined && b64 === undefined
  if (isAllowed && isAccessToken && isPlain) return { ...header, alg }
  throw new GatewayError(isAllowed ? (isAccessToken ? 'critical_extension' : 'wrong_type') : 'algorithm_not_allowed')
}

/** Whether the token's header names this type, in any case (RFC 7515 4.1.9). */
export function hasType({ headerText }: UnverifiedToken, type: string): boolean {
  const { typ } = readHeader(headerText)
  return typ?.toLowerCase() === type
}

/** The key of a token, and how signatures of its one algorithm are checked. */
export type ChosenKey = Readonly<{ verify: SignatureCheck; by: KeyObject | VerifyKeyObjectInput }>

type SignatureCheck = (signed: string, signature: Buffer, by: ChosenKey['by']) => boolean

/**
 * Chooses a key from `findKey` alone: `jku`, `x5u` and `jwk` in the header are never looked at. Rejects where there is
 * none, or none for the algorithm that the header names.
 */
export async function chooseKey(headerText: string, findKey: FindKey): Promise<ChosenKey> {
  const header = readHeader(headerText)
  try {
    return bindKeyToAlgorithm(header.alg, toKeyObject(await findKey(header, noToken)))
  } catch (error) {
    if (error instanceof GatewayError) throw error
    if (error instanceof errors.JOSEError || error instanceof TypeError)
      throw new GatewayError(nameNoKey(error), { cause: error })
    throw error
  }
}

function nameNoKey(error: errors.JOSEError | TypeError): RefusalCause {
  if (error instanceof errors.JWKSNoMatchingKey) return 'unknown_key'
  return error instanceof errors.JWKSMultipleMatchingKeys ? 'ambiguous_key' : 'unfit_key'
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

/** For RSA alone: of a signature on an elliptic curve that is malformed it throws, where `checkAtOnce` says no. */
const checkInParts =
  (digest: string): SignatureCheck =>
  (signed, signature, by) =>
    createVerify(digest).update(signed, 'latin1').verify(by, signature)

/** For all; by some microseconds dearer, since Node makes a job of it that its garbage collector has to end. */
const checkAtOnce =
  (digest: string | null): SignatureCheck =>
  (signed, signature, by) =>
    verify(digest, Buffer.from(signed, 'latin1'), by, signature)

/** RFC 7518 3.3-3.5 and RFC 8037 3.1: the one kind of key that each algorithm takes, and how its signatures are made. */
const signatures: Readonly<Record<string, Readonly<{ keyType: string; holds: SignatureCheck; options?: object }>>> = {
  // Its padding is node's own choice for a key of this type (RSASSA-PKCS1-v1_5).
  RS256: { keyType: 'rsa', holds: checkInParts('sha256') },
  PS256: {
    keyType: 'rsa',
    holds: checkInParts('sha256'),
    options: { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 },
  },
  ES256: { keyType: 'ec', holds: checkAtOnce('sha256'), options: { dsaEncoding: 'ieee-p1363' } },
  EdDSA: { keyType: 'ed25519', holds: checkAtOnce(null) },
}

/** Throws where a key is not of the one kind that its algorithm takes, whoever handed it out. */
export function bindKeyToAlgorithm(alg: string, key: KeyObject): ChosenKey {
  const made = signatures[alg]
  const fits =
    made !== undefined &&
    key.type === 'public' &&
    key.asymmetricKeyType === made.keyType &&
    (made.keyType !== 'ec' || key.asymmetricKeyDetails?.namedCurve === 'prime256v1')
  if (!fits) throw new GatewayError('unfit_key')
  // A key by itself where it can be: node 24 throws and catches two errors on its way to a key among options (10 µs).
  return { verify: made.holds, by: made.options ? { key, ...made.options } : key }
}

/**
 * Throws unless the signature is that of the key chosen for the very same header. By node:crypto, at once: on its way through
 * WebCrypto and its threads a signature costs four times as much.
 */
export function verifySignature({ signed, signature }: UnverifiedToken, { verify, by }: ChosenKey): void {
  if (!verify(signed, signature, by)) throw new GatewayError('bad_signature')
}
