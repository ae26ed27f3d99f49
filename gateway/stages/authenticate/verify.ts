import { hash } from 'node:crypto'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { Awaitable } from '../../base/lib/awaitable.ts'
import { EndOfTickBatch } from '../../base/lib/end-of-tick-batch.ts'
import { type Claims, readClaims, type TrustedIssuer } from './claims.ts'
import type { Carrier } from './credential.ts'
import type { KeySet } from './jwks/key-set.ts'
import { JwtProof, type OauthCredential, type OauthProof, toCredential } from './principal.ts'
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

export type VerifiedToken = Readonly<{
  issuer: Issuer
  claims: Claims
  credential: OauthCredential
  keysVersion: number | undefined
  proof: OauthProof
}>

export type VerifiedTokens = Readonly<{
  get: (key: string) => VerifiedToken | undefined
  set: (key: string, token: VerifiedToken) => void
}>

export type VerifyOptions = Readonly<{
  issuers: ReadonlyMap<string, Issuer>
  verified: VerifiedTokens
  onRead: (result: 'hit' | 'miss' | 'coalesced') => void
  introspect?: Introspect | undefined
}>

export type Verify = (token: string, carrier?: Carrier, clientAddress?: string) => Awaitable<VerifiedToken>

export type Introspect = (
  key: string,
  token: string,
  carrier: Carrier | undefined,
  clientAddress: string | undefined,
) => Awaitable<VerifiedToken>

export function createVerify({ issuers, verified, onRead, introspect }: VerifyOptions): Verify {
  const pending = new Map<string, Promise<VerifiedToken>>()
  return (jwt, carrier, clientAddress) => {
    // The hash covers the whole token, so also its signature and issuer.
    const key = hash('sha256', jwt, 'base64')
    const known = verified.get(key)
    if (known?.keysVersion !== undefined && known.keysVersion === known.issuer.keys.version()) {
      onRead('hit')
      return known
    }
    if (introspect && isOpaque(jwt)) return introspect(key, jwt, carrier, clientAddress)
    const shared = pending.get(key)
    onRead(shared === undefined ? 'miss' : 'coalesced')
    if (shared !== undefined) return shared
    const verification = verifyToken(jwt, issuers, clientAddress).then(
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

/** RFC 6750 sets no limit. Google documents 2,048 bytes at most; a token is held while its issuer is asked. */
const opaqueLimitBytes = 4096

/**
 * Whether a token is neither an API token nor anything like a JWT, which its signature alone proves. RFC 6750 2.1 has
 * the characters.
 */
export const isOpaque = (token: string): boolean =>
  token.length <= opaqueLimitBytes &&
  !token.startsWith('oat_') &&
  !(token.startsWith('eyJ') && token.includes('.')) &&
  token.split('.', 4).length !== 3 &&
  /^[\w.~+/-]+=*$/.test(token)

function verifyToken(
  jwt: string,
  issuers: VerifyOptions['issuers'],
  clientAddress: string | undefined,
): Promise<VerifiedToken> {
  const token = parseToken(jwt)
  const said = parseObject(token.payload)
  // This name only selects the issuer whose keys must fit; `readClaims` checks it after the signature.
  const issuer = typeof said.iss === 'string' ? issuers.get(said.iss) : undefined
  if (!issuer) throw new GatewayError('unknown_issuer')
  const { trust, keys } = issuer
  if (jwt.length > (trust.maxTokenBytes ?? Number.POSITIVE_INFINITY)) throw new GatewayError('jwt_too_long')
  if (trust.requireType !== undefined && !hasType(token, trust.requireType)) throw new GatewayError('wrong_type')
  // Read before the signature check: if the keys change meanwhile, the token is verified again.
  const keysVersion = keys.version()
  return proveSignature(token, keys, clientAddress).then((key) => {
    const claims = readClaims(said, trust)
    // No logout could tell such a JWT of before from one of after. An introspected token is the issuer's to refuse.
    if (trust.revocation?.logout && claims.issuedAt === undefined) throw new GatewayError('life_unbounded')
    keys.noteProven(clientAddress, claims.expiresAt)
    const proof = new JwtProof(trust, claims, keys, { headerText: token.headerText, key, keysVersion })
    return { issuer, claims, credential: toCredential(claims), keysVersion, proof }
  })
}

function proveSignature(
  token: UnverifiedToken,
  { keysByHeader, findKey }: KeySet,
  clientAddress: string | undefined,
): Promise<ChosenKey> {
  // Cached for the key set of this moment, even if another one is in force by the time the key is found.
  const known = keysByHeader()
  const key = known?.get(token.headerText)
  if (key) return verifyBatched(token, key)
  return chooseKey(token.headerText, (header, jws) => findKey(header, jws, clientAddress)).then((found) => {
    verifySignature(token, found)
    // Only after the check: an unsigned header would evict the headers of valid tokens.
    known?.set(token.headerText, found)
    return found
  })
}

type Check = Readonly<{
  token: UnverifiedToken
  key: ChosenKey
  held: (key: ChosenKey) => void
  failed: (error: unknown) => void
}>

const checks = new EndOfTickBatch<Check>(({ token, key, held, failed }) => {
  try {
    verifySignature(token, key)
    held(key)
  } catch (error) {
    failed(error)
  }
})

/**
 * Rejects unless the key chosen for this very header made the signature. Checks run in a batch: consecutive OpenSSL
 * calls share the CPU cache, so each is faster.
 */
const verifyBatched = (token: UnverifiedToken, key: ChosenKey): Promise<ChosenKey> =>
  new Promise((held, failed) => checks.add({ token, key, held, failed }))
