import { createPublicKey } from 'node:crypto'
import { createLocalJWKSet, errors, type JWK } from 'jose'
import { GatewayError } from '../errors/gateway-error.ts'
import { algorithms, type FindKey } from './signature.ts'
import { isStrongRsa } from './weak-rsa.ts'

/** Loads an issuer's key set, or rejects: the network is somebody else's business. */
export type LoadKeys = () => Promise<readonly JWK[]>

export type KeySetOptions = Readonly<{
  /** How long keys serve after the last good fetch (SPEC section 2.4). */
  maxStaleMs: number
  /** A clock that never steps back, in milliseconds. */
  monotonicMs: () => number
  /** Told why a fetch failed; known keys go on meanwhile. */
  onFailure: (error: unknown) => void
}>

/** One issuer's keys, as last fetched. */
export type KeySet = Readonly<{
  findKey: FindKey
  /** Fetches now; concurrent calls share one fetch. Resolves to whether it worked. */
  refresh: () => Promise<boolean>
  /** Milliseconds since the last good fetch, undefined before the first. */
  ageMs: () => number | undefined
  /** Changes with the keys; undefined while none may be used. */
  version: () => number | undefined
}>

/** Whatever the rate of unknown key ids, the issuer is asked at most this often for their sake. */
const unknownKeyFetchIntervalMs = 30_000

/** Keeps the last good key set; an unknown key id asks the issuer, a known one never waits. */
export function createKeySet(load: LoadKeys, { maxStaleMs, monotonicMs, onFailure }: KeySetOptions): KeySet {
  let find: ReturnType<typeof createLocalJWKSet> | undefined
  let fetchedAtMs = 0
  let unknownKeyFetchAtMs = Number.NEGATIVE_INFINITY
  let isIssuerDown = true
  let pending: Promise<boolean> | undefined

  const fetchOnce = async (): Promise<boolean> => {
    try {
      const keys = usableKeys(await load())
      find = createLocalJWKSet({ keys })
      fetchedAtMs = monotonicMs()
      isIssuerDown = false
    } catch (error) {
      isIssuerDown = true
      onFailure(error)
    }
    return !isIssuerDown
  }
  const refresh = (): Promise<boolean> => {
    pending ??= fetchOnce().finally(() => {
      pending = undefined
    })
    return pending
  }
  const current = () => (find && monotonicMs() - fetchedAtMs <= maxStaleMs ? find : undefined)
  const lookUp: FindKey = (header, token) => {
    const keys = current()
    if (!keys) throw new GatewayError('issuer_unavailable')
    return keys(header, token)
  }
  const fetchForUnknown = async (): Promise<void> => {
    if (pending !== undefined) await pending
    else if (monotonicMs() - unknownKeyFetchAtMs >= unknownKeyFetchIntervalMs) {
      unknownKeyFetchAtMs = monotonicMs()
      await refresh()
    }
  }

  return {
    refresh,
    ageMs: () => (find ? monotonicMs() - fetchedAtMs : undefined),
    version: () => (current() ? fetchedAtMs : undefined),
    findKey: async (header, token) => {
      try {
        return await lookUp(header, token)
      } catch (error) {
        if (!(error instanceof errors.JWKSNoMatchingKey) && !(error instanceof GatewayError)) throw error
        await fetchForUnknown()
        try {
          return await lookUp(header, token)
        } catch (again) {
          // An unknown key while the issuer cannot be asked proves nothing against the token.
          if (again instanceof errors.JWKSNoMatchingKey && isIssuerDown)
            throw new GatewayError('issuer_unavailable', { cause: again })
          throw again
        }
      }
    },
  }
}

/** Public signing keys of the algorithms we allow; a weak or unfit key is as good as absent. */
export const usableKeys = (keys: readonly JWK[]): JWK[] => keys.filter(isUsable).map(publicPart)

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
