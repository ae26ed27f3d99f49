// The identity header: caller, organization and rights, signed, so that a backend need not ask again.
import { SignJWT } from 'jose'
import type { Awaitable } from '../../base/lib/awaitable.ts'
import { PreparedHeaders } from '../../http/prepared-headers.ts'
import { assertIssued, type Permit, type PermittedCaller } from '../authorize/decide.ts'
import type { Upstream } from '../locate/upstream.ts'
import { composeIdentity, type IdentityClaims } from './identity-claims.ts'
import { createIdentityHeaderCache, type PinnedHeaders } from './identity-header-cache.ts'
import { lifetimeSeconds } from './keyring.ts'
import type { SigningKey } from './signing-keys.ts'

export type { PinnedHeaders } from './identity-header-cache.ts'

export type Pin = (permit: Permit, upstream: Upstream) => Awaitable<PinnedHeaders>

export type PinOptions = Readonly<{ issuer: string; signingKey: () => SigningKey; now: () => Date }>

export function createPin({ issuer, signingKey, now }: PinOptions): Pin {
  const sign = async (claims: IdentityClaims, signing: SigningKey): Promise<string> => {
    const issuedAt = Math.floor(now().getTime() / 1000)
    return new SignJWT({ ...claims })
      .setProtectedHeader({ alg: signing.algorithm, kid: signing.kid, typ: 'JWT' })
      .setIssuedAt(issuedAt)
      .setExpirationTime(issuedAt + lifetimeSeconds)
      .sign(signing.privateKey)
  }
  const pin = async (permit: Permit, caller: PermittedCaller, upstream: Upstream, signing: SigningKey) => {
    const identity = await sign(composeIdentity(issuer, permit, caller, upstream), signing)
    const { organization } = caller
    const headers = ['x-gateway-identity', identity]
    if (organization) headers.push('x-organization-id', String(organization.id))
    return new PreparedHeaders(headers)
  }
  const remember = createIdentityHeaderCache(now)
  return (permit, upstream) => {
    assertIssued(permit)
    const { caller } = permit
    if (!caller) return nothing
    const signing = signingKey()
    const make = (): Promise<PinnedHeaders> => pin(permit, caller, upstream, signing)
    return upstream.isBound ? make() : remember(caller, upstream, signing, make)
  }
}

const nothing: PinnedHeaders = new PreparedHeaders([])
