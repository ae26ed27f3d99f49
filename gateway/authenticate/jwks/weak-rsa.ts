import type { JWK } from 'jose'

/** RSA from 2048 bits, no exponent 1, under which every signature equals its message (RFC 8017 3.1: e >= 3, odd). */
export function isStrongRsa({ n, e }: JWK): boolean {
  const modulus = readInteger(n)
  const exponent = readInteger(e)
  return (
    modulus >= smallestModulus && exponent >= 3n && exponent < 2n ** 64n && exponent % 2n === 1n && !isRoca(modulus)
  )
}

const smallestModulus = 2n ** 2047n

const readInteger = (encoded = ''): bigint => BigInt(`0x0${Buffer.from(encoded, 'base64url').toString('hex')}`)

/** Small primes, each with the powers of 65537 modulo it. */
const fingerprints = [11n, 13n, 17n, 19n, 37n, 53n, 61n, 71n, 73n, 79n, 97n, 103n, 107n, 109n, 127n, 151n, 157n].map(
  (prime) => {
    const powers = new Set<bigint>()
    for (let power = 1n; !powers.has(power); power = (power * 65537n) % prime) powers.add(power)
    return { prime, powers }
  },
)

/** Moduli of a broken generator, which can be factored, are powers of 65537 modulo every small prime (CVE-2017-15361). */
const isRoca = (modulus: bigint): boolean => fingerprints.every(({ prime, powers }) => powers.has(modulus % prime))
