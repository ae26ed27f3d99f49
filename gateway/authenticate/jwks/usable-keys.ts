import { createPublicKey } from 'node:crypto'
import type { JWK } from 'jose'
import { algorithms } from '../signature.ts'
import { isStrongRsa } from './weak-rsa.ts'

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
