import { hash } from 'node:crypto'
import { GatewayError } from '../errors/gateway-error.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { EndOfTickBatch } from '../lib/end-of-tick-batch.ts'
import { type Claims, readClaims, type TrustedIssuer } from './claims.ts'
import type { KeySet } from './jwks/key-set.ts'
import {
  type ChosenKey,
  chooseKey,
  hasType,
  parseObject,
  parseToken,
  type UnverifiedToken,
  verifySignature,
} from './signature.ts'

export type Issuer = Readonly<{ trust: TrustedIssuer; keys: KeySet }>

/** A token whose signature held, by keys of this version; its times are judged at each use. */
export type VerifiedToken = Readonly<{ issuer: Issuer; claims: Claims; keysVersion: number | undefined }>

/** Where verified tokens are kept; what it forgets is verified again. */
export type VerifiedTokens = Readonly<{
  get: (key: string) => VerifiedToken | undefined
  set: (key: string, token: VerifiedToken) => void
}>

export type VerifyOptions = Readonly<{
  /** By the exact value of `iss`. */
  issuers: ReadonlyMap<string, Issuer>
  verified: VerifiedTokens
  onRead: (result: 'hit' | 'miss' | 'coalesced') => void
}>

export type Verify = (jwt: string) => Awaitable<VerifiedToken>

/** Verifies a signature once and remembers that it held, for as long as the issuer's keys stay the same. */
export function createVerify({ issuers, verified, onRead }: VerifyOptions): Verify {
  const pending = new Map<string, Promise<VerifiedToken>>()
  return (jwt) => {
    // The whole token's hash: its signature is part of it, and so is its issuer.
    const key = hash('sha256', jwt, 'base64')
    const known = verified.get(key)
    if (known?.keysVersion !== undefined && known.keysVersion === known.issuer.keys.version()) {
      onRead('hit')
      return known
    }
    const shared = pending.get(key)
    onRead(shared === undefined ? 'miss' : 'coalesced')
    if (shared !== undefined) return shared
    const verification = verifyToken(jwt, issuers).then(
      (token) => {
        pending.delete(key)
        verified.set(key, token)
        return token
      },
      (error: unknown) => {
        pending.delete(key)
        throw error
      },
    )
    pending.set(key, verification)
    return verification
  }
}

/** Throws, or rejects, for what is no sound token. */
function verifyToken(jwt: string, issuers: VerifyOptions['issuers']): Promise<VerifiedToken> {
  const token = parseToken(jwt)
  const said = parseObject(token.payload)
  // The name only chooses whose keys must fit; it is judged again once the signature holds.
  const issuer = typeof said.iss === 'string' ? issuers.get(said.iss) : undefined
  if (!issuer) throw new GatewayError('unknown_issuer')
  const { trust, keys } = issuer
  if (trust.requireType !== undefined && !hasType(token, trust.requireType)) throw new GatewayError('wrong_type')
  // Before the signature: keys that change meanwhile make this token one to verify again.
  const keysVersion = keys.version()
  // It holds for the very bytes that were read above.
  return proveSignature(token, keys).then(() => ({ issuer, claims: readClaims(said, trust), keysVersion }))
}

function proveSignature(token: UnverifiedToken, { keysByHeader, findKey }: KeySet): Promise<void> {
  // Of the keys that are in force now, whichever are when a key has been found.
  const known = keysByHeader()
  const key = known?.get(token.headerText)
  if (key) return verifyBatched(token, key)
  return chooseKey(token.headerText, findKey).then((found) => {
    verifySignature(token, found)
    // Not before: a header that nobody has signed would push out those of sound tokens.
    known?.set(token.headerText, found)
  })
}

type Check = Readonly<{
  token: UnverifiedToken
  key: ChosenKey
  held: () => void
  failed: (error: unknown) => void
}>

const checks = new EndOfTickBatch<Check>(({ token, key, held, failed }) => {
  try {
    verifySignature(token, key)
    held()
  } catch (error) {
    failed(error)
  }
})

/**
 * Rejects unless the signature is that of the key chosen for the very same header. With those of other tokens: OpenSSL
 * looks so much up on its way that what stands between two checks takes longer, and each check as well.
 */
const verifyBatched = (token: UnverifiedToken, key: ChosenKey): Promise<void> =>
  new Promise((held, failed) => checks.add({ token, key, held, failed }))
