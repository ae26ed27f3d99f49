import { hash } from 'node:crypto'
import type { Awaitable } from '../awaitable/awaitable.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { type Claims, readClaims, type TrustedIssuer } from './claims.ts'
import type { KeySet } from './jwks.ts'
import { parseObject, parseToken, verifySignature } from './signature.ts'

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
  onRead: (result: 'hit' | 'miss' | 'shared') => void
}>

export type Verify = (jwt: string) => Awaitable<VerifiedToken>

/** Verifies a signature once and remembers that it held, for as long as the issuer's keys stay the same. */
export function createVerify({ issuers, verified, onRead }: VerifyOptions): Verify {
  const pending = new Map<string, Promise<VerifiedToken>>()
  const verifyAndKeep = async (jwt: string, key: string): Promise<VerifiedToken> => {
    const token = await verifyToken(jwt, issuers)
    verified.set(key, token)
    return token
  }
  return (jwt) => {
    // The whole token's hash: its signature is part of it, and so is its issuer.
    const key = hash('sha256', jwt, 'base64')
    const known = verified.get(key)
    if (known?.keysVersion !== undefined && known.keysVersion === known.issuer.keys.version()) {
      onRead('hit')
      return known
    }
    const shared = pending.get(key)
    onRead(shared === undefined ? 'miss' : 'shared')
    if (shared !== undefined) return shared
    const verification = verifyAndKeep(jwt, key).finally(() => pending.delete(key))
    pending.set(key, verification)
    return verification
  }
}

async function verifyToken(jwt: string, issuers: VerifyOptions['issuers']): Promise<VerifiedToken> {
  const unverified = parseToken(jwt)
  const said = parseObject(unverified.payload)
  // The name only chooses whose keys must fit; it is judged again once the signature holds.
  const issuer = typeof said.iss === 'string' ? issuers.get(said.iss) : undefined
  if (!issuer) throw new GatewayError('unauthenticated')
  // Before the signature: keys that change meanwhile make this token one to verify again.
  const keysVersion = issuer.keys.version()
  // It holds for the very bytes that were read above.
  await verifySignature(unverified, issuer.keys.findKey)
  return { issuer, claims: readClaims(said, issuer.trust), keysVersion }
}
