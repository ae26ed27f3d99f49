import { SignJWT } from 'jose'
import { assertIssued, type Permit } from '../authorize/decide.ts'
import type { RawHeaders } from '../engine/exchange.ts'
import type { Upstream } from '../locate/upstream.ts'
import { composeIdentity, type IdentityClaims } from './identity-claims.ts'
import { lifetimeSeconds, reuseMs } from './keyring.ts'
import type { SigningKey } from './signing-keys.ts'

/** The headers that speak for the caller; nobody but us can have set them. */
export type PinnedHeaders = RawHeaders

export type Pin = (permit: Permit, upstream: Upstream) => Promise<PinnedHeaders>

export type PinOptions = Readonly<{ issuer: string; signingKey: () => SigningKey; now: () => Date }>

/** A header that is signed early in one generation is last handed out late in the next but one. */
const generationMs = reuseMs / 3

/** Signs who is calling, for whom, and with what right. */
export function createPin({ issuer, signingKey, now }: PinOptions): Pin {
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
    const identity = await sign(
      composeIdentity(issuer, permit, permit.caller, upstream),
      signingKey(),
      !upstream.isBound,
    )
    const { organization } = permit.caller
    return organization
      ? ['x-gateway-identity', identity, 'x-organization-id', String(organization.id)]
      : ['x-gateway-identity', identity]
  }
}

type Sign = (claims: IdentityClaims, key: SigningKey) => Promise<string>

/**
 * Reuses a header for a few seconds. The key is every claim it makes and the key that signed it, so a change
 * of rights or of keys can never meet an old header. Two generations bound the memory without a clock per entry.
 */
function rememberSigned(now: () => Date, sign: Sign) {
  let young = new Map<string, Promise<string>>()
  let old = new Map<string, Promise<string>>()
  let turnedAtMs = 0
  return (claims: IdentityClaims, signing: SigningKey, isReusable: boolean): Promise<string> => {
    if (!isReusable) return sign(claims, signing)
    const elapsedMs = now().getTime() - turnedAtMs
    // A clock stepped back counts as time passed: rather sign again than hand out a header from the future.
    if (elapsedMs > generationMs || elapsedMs < 0) {
      old = elapsedMs > 2 * generationMs || elapsedMs < 0 ? new Map() : young
      young = new Map()
      turnedAtMs = now().getTime()
    }
    const key = `${signing.kid} ${JSON.stringify(claims)}`
    const known = young.get(key) ?? old.get(key)
    if (known) return known
    const signed = sign(claims, signing)
    signed.catch(() => young.delete(key))
    young.set(key, signed)
    return signed
  }
}
