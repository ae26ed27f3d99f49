import { SignJWT } from 'jose'
import { assertIssued, type Permit, type PermittedCaller } from '../authorize/decide.ts'
import type { Awaitable } from '../awaitable/awaitable.ts'
import type { RawHeaders } from '../engine/exchange.ts'
import type { Upstream } from '../locate/upstream.ts'
import { composeIdentity, type IdentityClaims } from './identity-claims.ts'
import { lifetimeSeconds, reuseMs } from './keyring.ts'
import type { SigningKey } from './signing-keys.ts'

/** The headers that speak for the caller; nobody but us can have set them. */
export type PinnedHeaders = RawHeaders

export type Pin = (permit: Permit, upstream: Upstream) => Awaitable<PinnedHeaders>

export type PinOptions = Readonly<{ issuer: string; signingKey: () => SigningKey; now: () => Date }>

/** A header that is signed early in one generation is last handed out late in the next but one. */
const generationMs = reuseMs / 3

/** Signs who is calling, for whom, and with what right. */
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
    return organization
      ? ['x-gateway-identity', identity, 'x-organization-id', String(organization.id)]
      : ['x-gateway-identity', identity]
  }
  const remember = rememberPinned(now)
  return (permit, upstream) => {
    assertIssued(permit)
    const { caller } = permit
    if (!caller) return nothing
    const signing = signingKey()
    const make = (): Promise<PinnedHeaders> => pin(permit, caller, upstream, signing)
    return upstream.isBound ? make() : remember(caller, nameClaims(caller, upstream, signing), make)
  }
}

const nothing: PinnedHeaders = []

/** All that the headers say beyond what the user's record does, and the key that signs them. */
function nameClaims({ organization, principal, authority }: PermittedCaller, upstream: Upstream, key: SigningKey) {
  const { proof } = principal
  const credential = proof.kind === 'oauth' ? '' : proof.id
  const place = organization ? `${organization.id} ${organization.slug} ${organization.role}` : ''
  return `${key.kid} ${upstream.name} ${credential} ${nameAbilities(authority.abilities)} ${place}`
}

const abilityNames = new WeakMap<ReadonlySet<string>, string>()

function nameAbilities(abilities: PermittedCaller['authority']['abilities']): string {
  if (abilities === '*') return '*'
  const known = abilityNames.get(abilities)
  if (known !== undefined) return known
  const name = JSON.stringify([...abilities].sort())
  abilityNames.set(abilities, name)
  return name
}

type Generation = WeakMap<object, Map<string, Awaitable<PinnedHeaders>>>

/**
 * Reuses headers for a few seconds. They are known by the very record of their user, which a change replaces, and by
 * every other claim and the key that signed it: so a change of rights or of keys can never meet an old header. Two
 * generations bound the memory without a clock per entry.
 */
function rememberPinned(now: () => Date) {
  let young: Generation = new WeakMap()
  let old: Generation = new WeakMap()
  let turnedAtMs = 0
  return (
    { principal }: PermittedCaller,
    name: string,
    make: () => Promise<PinnedHeaders>,
  ): Awaitable<PinnedHeaders> => {
    const nowMs = now().getTime()
    const elapsedMs = nowMs - turnedAtMs
    // A clock stepped back counts as time passed: rather sign again than hand out a header from the future.
    if (elapsedMs > generationMs || elapsedMs < 0) {
      old = elapsedMs > 2 * generationMs || elapsedMs < 0 ? new WeakMap() : young
      young = new WeakMap()
      turnedAtMs = nowMs
    }
    const { user } = principal
    const known = young.get(user)?.get(name) ?? old.get(user)?.get(name)
    if (known) return known
    const named = young.get(user) ?? new Map<string, Awaitable<PinnedHeaders>>()
    young.set(user, named)
    const pinned = make()
    named.set(name, pinned)
    pinned.then(
      (headers) => named.set(name, headers),
      () => named.delete(name),
    )
    return pinned
  }
}
