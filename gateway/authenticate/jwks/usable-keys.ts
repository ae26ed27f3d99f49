import { createPublicKey } from 'node:crypto'
import type { JWK } from 'jose'
import { algorithms } from '../signature.ts'

/**
 * The public signing keys of the algorithms we allow, wherever the list comes from; a weak or unfit key, and what
 * is none at all, is as good as absent.
 */
export const usableKeys = (list: readonly unknown[]): JWK[] => list.filter(isKey).filter(isUsable).map(publicPart)

const isKey = (entry: unknown): entry is JWK =>
  typeof entry === 'object' && entry !== null && 'kty' in entry && typeof entry.kty === 'string'

function isUsable(key: JWK): boolean {
  const { use, key_ops: operations, alg, kty, crv } = key
  if (use !== undefined && use !== 'sig') return false
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) return false
  if (alg !== undefined && !algorithms.includes(alg)) return false
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

/** Whether there is a key in it at all: a point off its curve would else fail at every token that names it. */
function isReadable(key: JWK): boolean {
  try {
    createPublicKey({ key: publicPart(key), format: 'jwk' })
    return true
  } catch {
    // The issuer's other keys are not to suffer from it.
    return false
  }
}

const publicPart = ({ kty, kid, alg, crv, x, y, n, e }: JWK): JWK =>
  Object.fromEntries(
    Object.entries({ kty, kid, alg, crv, x, y, n, e, use: 'sig' }).filter(([, value]) => value !== undefined),
  ) as JWK // the same members, without the absent ones

/** RSA from 2048 bits, no exponent 1, under which every signature equals its message (RFC 8017 3.1: e >= 3, odd). */
function isStrongRsa({ n, e }: JWK): boolean {
  const modulus = readInteger(n)
  const exponent = readInteger(e)
  return (
    modulus >= smallestModulus && exponent >= 3n && exponent < 2n ** 64n && exponent % 2n === 1n && !isRoca(modulus)
  )
}

const smallestModulus = 2n ** 2047n

const readInteger = (encoded = ''): bigint => BigInt(`0x0${Buffer.from(encoded, 'base64url').toString('hex')}`)

/** Small primes, each with the powers of 65537 modulo it. */
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

/** Moduli of a broken generator, which can be factored, are powers of 65537 modulo every small prime (CVE-2017-15361). */
const isRoca = (modulus: bigint): boolean => rocaFingerprints.every(({ prime, powers }) => powers.has(modulus % prime))
