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
type CacheKey = Readonly<{
  kid: string
  upstream: string
  abilities: string
  organizationId: number | undefined
  slug: string | undefined
  role: string | undefined
}>

/** Headers that were pinned, or soon will be. Compared field by field: a name put together of them all costs more. */
type Entry = { readonly key: CacheKey; headers: Awaitable<PinnedHeaders> }

const findEntry = (all: readonly Entry[] | undefined, key: CacheKey): Entry | undefined =>
  all?.find(
    ({ key: { kid, upstream, abilities, organizationId, slug, role } }) =>
      organizationId === key.organizationId &&
      upstream === key.upstream &&
      kid === key.kid &&
      role === key.role &&
      slug === key.slug &&
      abilities === key.abilities,
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
type Generation = WeakMap<object, Map<number, Entry[]>>

/**
 * Reuses headers for a few seconds. They are known by the very record of their user, which a change replaces, and by
 * every other claim and the key that signed it: so a change of rights or of keys can never meet an old header. Two
 * generations bound the memory without a clock per entry.
 */
export function createIdentityHeaderCache(now: () => Date) {
  let current: Generation = new WeakMap()
  let previous: Generation = new WeakMap()
  let rotatedAtMs = 0
  const rotate = (): void => {
    const nowMs = now().getTime()
    const elapsedMs = nowMs - rotatedAtMs
    // A clock stepped back counts as time passed: rather sign again than hand out a header from the future.
    if (elapsedMs <= generationMs && elapsedMs >= 0) return
    previous = elapsedMs > 2 * generationMs || elapsedMs < 0 ? new WeakMap() : current
    current = new WeakMap()
    rotatedAtMs = nowMs
  }
  return (
    caller: PermittedCaller,
    upstream: Upstream,
    { kid }: SigningKey,
    make: () => Promise<PinnedHeaders>,
  ): Awaitable<PinnedHeaders> => {
    rotate()
    const { organization, permissions } = caller
    const { user } = caller.principal
    const credential = nameCredential(caller)
    const key: CacheKey = {
      kid,
      upstream: upstream.name,
      abilities: nameAbilities(permissions.abilities),
      organizationId: organization?.id,
      slug: organization?.slug,
      role: organization?.role,
    }
    const known =
      findEntry(current.get(user)?.get(credential), key) ?? findEntry(previous.get(user)?.get(credential), key)
    if (known) return known.headers
    const entry: Entry = { key, headers: make() }
    const all = enter(current, user, credential)
    all.push(entry)
    const { headers } = entry
    if (headers instanceof Promise)
      headers.then(
        (made) => {
          entry.headers = made
        },
        () => all.splice(all.indexOf(entry), 1),
      )
    return headers
  }
}

/** The list of what a user has been pinned with by a credential, empty where there was none. */
function enter(generation: Generation, user: object, credential: number): Entry[] {
  const byCredential = generation.get(user) ?? new Map<number, Entry[]>()
  generation.set(user, byCredential)
  const all = byCredential.get(credential) ?? []
  byCredential.set(credential, all)
  return all
}
