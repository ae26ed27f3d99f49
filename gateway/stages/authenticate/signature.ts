import { isUtf8 } from 'node:buffer'
import { constants, createVerify, KeyObject, type VerifyKeyObjectInput, verify } from 'node:crypto'
import { types } from 'node:util'
import { errors, type FlattenedJWSInput, type JWTHeaderParameters, type JWTVerifyGetKey } from 'jose'
import { GatewayError, type RefusalCause } from '../../base/errors/gateway-error.ts'

/** Neither `none` nor HMAC: a public key must never serve as a shared secret (RFC 8725 3.1). */
export const algorithms = ['RS256', 'PS256', 'ES256', 'EdDSA', 'Ed25519']

/**
 * The most that `issuers[].maxTokenBytes` may allow. A token leaves room for the other headers of a head of 32 KiB, and is
 * parsed before its issuer is known.
 */
const largestTokenBytes = 24 * 1024

export type FindKey = JWTVerifyGetKey

export type UnverifiedToken = Readonly<{
  headerText: string
  payload: Buffer
  signed: string
  signature: Buffer
}>

/** Parses a compact JWS strictly. Most libraries accept padding, spaces and stray bits in its base64url. */
export function parseToken(token: string, limitBytes: number = largestTokenBytes): UnverifiedToken {
  if (isEncrypted(token)) throw new GatewayError('encrypted')
  if (token.length > limitBytes) throw new GatewayError('jwt_too_long')
  const payloadAt = token.indexOf('.') + 1
  const signatureAt = token.indexOf('.', payloadAt) + 1
  if (payloadAt === 0 || signatureAt === 0) throw malformed(token)
  const payload = decodeCanonical(token.slice(payloadAt, signatureAt - 1))
  const signature = decodeCanonical(token.slice(signatureAt))
  return { headerText: token.slice(0, payloadAt - 1), payload, signed: token.slice(0, signatureAt - 1), signature }
}

/** RFC 7516 7.1: a compact JWE has five parts, of which only its issuer or its audience reads the payload. */
export const isEncrypted = (token: string): boolean => token.split('.', 6).length === 5 && !token.startsWith('oat_')

/** An API token in the wrong header is a common mistake, so it has its own cause. */
const malformed = (token: string): GatewayError =>
  new GatewayError(token.startsWith('oat_') ? 'token_in_oauth_header' : 'malformed')

function decodeCanonical(part: string): Buffer {
  const bytes = Buffer.from(part, 'base64url')
  if (bytes.length === 0 || bytes.toString('base64url') !== part) throw new GatewayError('malformed')
  return bytes
}

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

type IsType = (typ: unknown) => boolean

/**
 * The media type of `typ` in lower case: media types ignore case, and `application/` may be left out (RFC 7515 4.1.9, RFC
 * 9068 4). Neither parameters nor blanks are removed, so such a `typ` equals no type.
 */
export const readMediaType = (typ: unknown): string | undefined =>
  typeof typ === 'string' ? typ.toLowerCase().replace(/^application\//, '') : undefined

const accessTokenTypes: readonly unknown[] = ['jwt', 'at+jwt']

/** RFC 8725 3.11: a token made for another purpose is refused. */
const isAccessTokenType: IsType = (typ) => typ === undefined || accessTokenTypes.includes(readMediaType(typ))

function readHeader(text: string, isType: IsType): JWTHeaderParameters {
  const header = parseObject(decodeCanonical(text))
  const { alg, typ, crit, b64 } = header
  const isAllowed = typeof alg === 'string' && algorithms.includes(alg)
  const isRightType = isType(typ)
  // RFC 7515 4.1.11: the gateway supports no critical extension, so a token must not require one.
  const isPlain = crit === undefined && b64 === undefined
  if (isAllowed && isRightType && isPlain) return { ...header, alg }
  throw new GatewayError(isAllowed ? (isRightType ? 'critical_extension' : 'wrong_type') : 'algorithm_not_allowed')
}

export function hasType({ headerText }: UnverifiedToken, type: string): boolean {
  const { typ } = readHeader(headerText, isAccessTokenType)
  return readMediaType(typ) === type
}

export type ChosenKey = Readonly<{ verify: SignatureCheck; by: KeyObject | VerifyKeyObjectInput }>

/** A key set that is fetched again has other objects for the same keys. */
export const isSameKey = (one: ChosenKey, other: ChosenKey): boolean => keyOf(one).equals(keyOf(other))

const keyOf = ({ by }: ChosenKey): KeyObject => (by instanceof KeyObject ? by : (by.key as KeyObject))

type SignatureCheck = (signed: string, signature: Buffer, by: ChosenKey['by']) => boolean

/**
 * Chooses a key from `findKey` alone; `jku`, `x5u` and `jwk` in the header are ignored. Rejects without a key for the
 * algorithm that the header names.
 */
export async function chooseKey(
  headerText: string,
  findKey: FindKey,
  isType: IsType = isAccessTokenType,
): Promise<ChosenKey> {
  const header = readHeader(headerText, isType)
  try {
    return bindKeyToAlgorithm(header.alg, toKeyObject(await findKey(header, noToken)))
  } catch (error) {
    if (error instanceof GatewayError) throw error
    if (error instanceof errors.JOSEError || error instanceof TypeError)
      throw new GatewayError(nameNoKey(error), { cause: error })
    throw error
  }
}

const nameNoKey = (error: errors.JOSEError | TypeError): RefusalCause =>
  error instanceof errors.JWKSMultipleMatchingKeys ? 'ambiguous_key' : 'unknown_key'

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

/** For RSA alone: with an elliptic curve, a malformed signature throws here, but is false in `checkAtOnce`. */
const checkInParts =
  (digest: string): SignatureCheck =>
  (signed, signature, by) =>
    createVerify(digest).update(signed, 'latin1').verify(by, signature)

/** RFC 8017 8.1.2, step 1. With PSS, OpenSSL takes a signature that lacks the zeros at its start. */
const checkWhole =
  (check: SignatureCheck): SignatureCheck =>
  (signed, signature, by) => {
    const key = by instanceof KeyObject ? by : by.key
    const bits = key instanceof KeyObject ? key.asymmetricKeyDetails?.modulusLength : undefined
    return bits !== undefined && signature.length === Math.ceil(bits / 8) && check(signed, signature, by)
  }

/** Some microseconds slower than `checkInParts`, because Node creates a job that the garbage collector must finish. */
const checkAtOnce =
  (digest: string | null): SignatureCheck =>
  (signed, signature, by) =>
    verify(digest, Buffer.from(signed, 'latin1'), by, signature)

const ed25519 = { keyType: 'ed25519', holds: checkAtOnce(null) }

/** RFC 7518 3.3-3.5, RFC 8037 3.1 and RFC 9864 2.2: the kind of key that each algorithm takes, and its signature check. */
const signatures: Readonly<Record<string, Readonly<{ keyType: string; holds: SignatureCheck; options?: object }>>> = {
  // Node's default padding for RSA keys is RSASSA-PKCS1-v1_5.
  RS256: { keyType: 'rsa', holds: checkInParts('sha256') },
  PS256: {
    keyType: 'rsa',
    holds: checkWhole(checkInParts('sha256')),
    options: { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 },
  },
  ES256: { keyType: 'ec', holds: checkAtOnce('sha256'), options: { dsaEncoding: 'ieee-p1363' } },
  EdDSA: ed25519,
  Ed25519: ed25519,
}

export function bindKeyToAlgorithm(alg: string, key: KeyObject): ChosenKey {
  const made = signatures[alg]
  const fits =
    made !== undefined &&
    key.type === 'public' &&
    key.asymmetricKeyType === made.keyType &&
    (made.keyType !== 'ec' || key.asymmetricKeyDetails?.namedCurve === 'prime256v1')
  if (!fits) throw new GatewayError('unknown_key')
  // A bare key if possible: with options, Node 24 throws and catches two errors before it finds the key (10 µs).
  return { verify: made.holds, by: made.options ? { key, ...made.options } : key }
}

/**
 * Throws unless the key chosen for this very header made the signature. Synchronous node:crypto, because a check by
 * WebCrypto and its threads costs four times as much.
 */
export function verifySignature({ signed, signature }: UnverifiedToken, { verify, by }: ChosenKey): void {
  if (!verify(signed, signature, by)) throw new GatewayError('bad_signature')
}
