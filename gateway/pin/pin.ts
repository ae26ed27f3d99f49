import { SignJWT } from 'jose'
import { assertIssued, type Permit } from '../authorize/decide.ts'
import type { RawHeaders } from '../engine/exchange.ts'
import type { Upstream } from '../locate/upstream.ts'
import { composeIdentity, type IdentityClaims } from './identity-claims.ts'
import type { SigningKeys } from './signing-keys.ts'

/** The headers that speak for the caller; nobody but us can have set them. */
export type PinnedHeaders = RawHeaders

export type Pin = (permit: Permit, upstream: Upstream) => Promise<PinnedHeaders>

export type PinOptions = Readonly<{ issuer: string; keys: () => SigningKeys; now: () => Date }>

const lifetimeSeconds = 60

/**
 * A header is handed out for at most three generations, five seconds or so: a backend always has most of its
 * minute left.
 */
const generationMs = 1_700

/** Signs who is calling, for whom, and with what right. */
export function createPin({ issuer, keys, now }: PinOptions): Pin {
  const sign = rememberSigned(now, async (claims, signing) => {
    const issuedAt = Math.floor(now().getTime() / 1000)
    return new SignJWT({ ...claims })
      .setProtectedHeader({ alg: signing.algorithm, kid: signing.kid, typ: 'JWT' })
      .setIssuedAt(issuedAt)
      .setExpirationTime(issuedAt + lifetimeSeconds)
      .sign(signing.privateKey)
  })
  return async (permit, upstream) => {
    assertIssued(permit)
    if (!permit.caller) return []
    const identity = await sign(composeIdentity(issuer, permit, permit.caller, upstream), keys(), !upstream.isBound)
    const { organization } = permit.caller
    return organization
      ? ['x-gateway-identity', identity, 'x-organization-id', String(organization.id)]
      : ['x-gateway-identity', identity]
  }
}

type Sign = (claims: IdentityClaims, keys: SigningKeys) => Promise<string>

/**
 * Reuses a header for a few seconds. The key is every claim it makes and the key that signed it, so a change
 * of rights or of keys can never meet an old header. Two generations bound the memory without a clock per entry.
 */
function rememberSigned(now: () => Date, sign: Sign) {
  let young = new Map<string, Promise<string>>()
  let old = new Map<string, Promise<string>>()
  let turnedAtMs = 0
  return (claims: IdentityClaims, keys: SigningKeys, isReusable: boolean): Promise<string> => {
    if (!isReusable) return sign(claims, keys)
    const elapsedMs = now().getTime() - turnedAtMs
    // A clock stepped back counts as time passed: rather sign again than hand out a header from the future.
    if (elapsedMs > generationMs || elapsedMs < 0) {
      old = elapsedMs > 2 * generationMs || elapsedMs < 0 ? new Map() : young
      young = new Map()
      turnedAtMs = now().getTime()
    }
    const key = `${keys.kid} ${JSON.stringify(claims)}`
    const known = young.get(key) ?? old.get(key)
    if (known) return known
    const signed = sign(claims, keys)
    signed.catch(() => young.delete(key))
    young.set(key, signed)
    return signed
  }
}
