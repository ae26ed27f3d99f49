import { createPublicKey } from 'node:crypto'
import type { JWK } from 'jose'
import { algorithms } from '../signature.ts'

/**
 * Keeps the public signing keys of allowed algorithms. Weak, unfit and malformed entries are dropped, so that they do
 * not make a good key of the same set unusable.
 */
export const usableKeys = (list: readonly unknown[]): JWK[] => list.filter(isKey).filter(isUsable).map(publicPart)

const isKey = (entry: unknown): entry is JWK =>
  typeof entry === 'object' && entry !== null && 'kty' in entry && typeof entry.kty === 'string'

function isUsable(key: JWK): boolean {
  const { use, key_ops: operations, alg, kty, crv } = key
  if (use !== undefined && use !== 'sig') return false
  if (operations !== undefined && !isForVerifying(operations)) return false
  if (alg !== undefined && !algorithms.includes(alg)) return false
  if (![key.n, key.e, key.x, key.y].every(isShort)) return false
  switch (kty) {
    case 'RSA':
      return isReadable(key) && isStrongRsa(key)
    case 'EC':
      return crv === 'P-256' && isReadable(key)
    case 'OKP':
      return crv === 'Ed25519' && isReadable(key)
    default:
      return false
  }
}

const isForVerifying = (operations: unknown): boolean =>
  Array.isArray(operations) && operations.length > 0 && operations.every((operation) => operation === 'verify')

/** 16,384 bits: OpenSSL verifies by no larger modulus (OPENSSL_RSA_MAX_MODULUS_BITS). */
const mostCharacters = Math.ceil(16_384 / 6)

const isShort = (part: unknown): boolean =>
  part === undefined || (typeof part === 'string' && part.length <= mostCharacters)

function isReadable(key: JWK): boolean {
  try {
    createPublicKey({ key: publicPart(key), format: 'jwk' })
    return true
  } catch {
    // A malformed key, such as a point off its curve, must not affect the issuer's other keys.
    return false
  }
}

const publicPart = ({ kty, kid, alg, crv, x, y, n, e }: JWK): JWK =>
  Object.fromEntries(
    Object.entries({ kty, kid, alg, crv, x, y, n, e, use: 'sig' }).filter(([, value]) => value !== undefined),
  ) as JWK // the same members, without the absent ones

/** RSA from 2048 bits. Under exponent 1 each signature equals its message (RFC 8017 3.1: e >= 3, odd). */
function isStrongRsa({ n, e }: JWK): boolean {
  const modulus = readInteger(n)
  const exponent = readInteger(e)
  return (
    modulus >= smallestModulus && exponent >= 3n && exponent < 2n ** 64n && exponent % 2n === 1n && !isRoca(modulus)
  )
}

const smallestModulus = 2n ** 2047n

const readInteger = (encoded = ''): bigint => BigInt(`0x0${Buffer.from(encoded, 'base64url').toString('hex')}`)

const rocaFingerprints = [
  11n,
  13n,
  17n,
  19n,
  37n,
  53n,
  61n,
  71n,
  73n,
  79n,
  97n,
  103n,
  107n,
  109n,
  127n,
  151n,
  157n,
].map((prime) => {
  const powers = new Set<bigint>()
  for (let power = 1n; !powers.has(power); power = (power * 65537n) % prime) powers.add(power)
  return { prime, powers }
})

/**
 * The moduli of a broken generator can be factored; they are powers of 65537 modulo every small prime (CVE-2017-15361).
 */
const isRoca = (modulus: bigint): boolean => rocaFingerprints.every(({ prime, powers }) => powers.has(modulus % prime))
