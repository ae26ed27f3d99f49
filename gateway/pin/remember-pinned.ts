import type { PermittedCaller } from '../authorize/decide.ts'
import type { PreparedHeaders } from '../http/prepared-headers.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { Upstream } from '../locate/upstream.ts'
import { reuseMs } from './keyring.ts'
import type { SigningKey } from './signing-keys.ts'

/** The headers that speak for the caller; nobody but us can have set them. */
export type PinnedHeaders = PreparedHeaders

/** A header that is signed early in one generation is last handed out late in the next but one. */
const generationMs = reuseMs / 3

/** All that headers say beyond what the user's record and the credential do, and the key that signed them. */
type Said = Readonly<{
  kid: string
  upstream: string
  abilities: string
  organizationId: number | undefined
  slug: string | undefined
  role: string | undefined
}>

/** Headers that were pinned, or soon will be. Compared field by field: a name put together of them all costs more. */
type Kept = { readonly said: Said; headers: Awaitable<PinnedHeaders> }

const findKept = (all: readonly Kept[] | undefined, said: Said): Kept | undefined =>
  all?.find(
    ({ said: { kid, upstream, abilities, organizationId, slug, role } }) =>
      organizationId === said.organizationId &&
      upstream === said.upstream &&
      kid === said.kid &&
      role === said.role &&
      slug === said.slug &&
      abilities === said.abilities,
  )

/** An OAuth session is one credential, whatever its token. */
const nameCredential = ({ principal }: PermittedCaller): number =>
  principal.credential.kind === 'oauth' ? -1 : principal.credential.id

const abilityNames = new WeakMap<ReadonlySet<string>, string>()

function nameAbilities(abilities: PermittedCaller['permissions']['abilities']): string {
  if (abilities === '*') return '*'
  const known = abilityNames.get(abilities)
  if (known !== undefined) return known
  const name = JSON.stringify([...abilities].sort())
  abilityNames.set(abilities, name)
  return name
}

/** By the user's record, then by the credential. */
type Generation = WeakMap<object, Map<number, Kept[]>>

/**
 * Reuses headers for a few seconds. They are known by the very record of their user, which a change replaces, and by
 * every other claim and the key that signed it: so a change of rights or of keys can never meet an old header. Two
 * generations bound the memory without a clock per entry.
 */
export function rememberPinned(now: () => Date) {
  let young: Generation = new WeakMap()
  let old: Generation = new WeakMap()
  let turnedAtMs = 0
  const turn = (): void => {
    const nowMs = now().getTime()
    const elapsedMs = nowMs - turnedAtMs
    // A clock stepped back counts as time passed: rather sign again than hand out a header from the future.
    if (elapsedMs <= generationMs && elapsedMs >= 0) return
    old = elapsedMs > 2 * generationMs || elapsedMs < 0 ? new WeakMap() : young
    young = new WeakMap()
    turnedAtMs = nowMs
  }
  return (
    caller: PermittedCaller,
    upstream: Upstream,
    { kid }: SigningKey,
    make: () => Promise<PinnedHeaders>,
  ): Awaitable<PinnedHeaders> => {
    turn()
    const { organization, permissions } = caller
    const { user } = caller.principal
    const credential = nameCredential(caller)
    const said: Said = {
      kid,
      upstream: upstream.name,
      abilities: nameAbilities(permissions.abilities),
      organizationId: organization?.id,
      slug: organization?.slug,
      role: organization?.role,
    }
    const known = findKept(young.get(user)?.get(credential), said) ?? findKept(old.get(user)?.get(credential), said)
    if (known) return known.headers
    const kept: Kept = { said, headers: make() }
    const all = enter(young, user, credential)
    all.push(kept)
    const { headers } = kept
    if (headers instanceof Promise)
      headers.then(
        (made) => {
          kept.headers = made
        },
        () => all.splice(all.indexOf(kept), 1),
      )
    return headers
  }
}

/** The list of what a user has been pinned with by a credential, empty where there was none. */
function enter(generation: Generation, user: object, credential: number): Kept[] {
  const byCredential = generation.get(user) ?? new Map<number, Kept[]>()
  generation.set(user, byCredential)
  const all = byCredential.get(credential) ?? []
  byCredential.set(credential, all)
  return all
}
