import type { Awaitable } from '../../base/lib/awaitable.ts'
import type { PreparedHeaders } from '../../http/prepared-headers.ts'
import type { PermittedCaller } from '../authorize/decide.ts'
import type { Upstream } from '../locate/upstream.ts'
import { reuseMs } from './keyring.ts'
import type { SigningKey } from './signing-keys.ts'

export type PinnedHeaders = PreparedHeaders

/** An entry is made in one generation and dropped two generations later, so it lives for at most three. */
const generationMs = reuseMs / 3

type CacheKey = Readonly<{
  kid: string
  upstream: string
  abilities: string
  organizationId: number | undefined
  slug: string | undefined
  role: string | undefined
}>

/** Compared field by field, because joining all fields to one string costs more. */
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

type Generation = WeakMap<object, Map<number, Entry[]>>

/**
 * Reuses headers for a few seconds. The key has the user's record, which each change replaces, and every other claim
 * and the signing key. So after a change of rights or keys no old header is found. Two generations bound the memory
 * without a timer per entry.
 */
export function createIdentityHeaderCache(now: () => Date) {
  let current: Generation = new WeakMap()
  let previous: Generation = new WeakMap()
  let rotatedAtMs = 0
  const rotate = (): void => {
    const nowMs = now().getTime()
    const elapsedMs = nowMs - rotatedAtMs
    // A clock that was set back counts as expired: signing again is better than a header from the future.
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

function enter(generation: Generation, user: object, credential: number): Entry[] {
  const byCredential = generation.get(user) ?? new Map<number, Entry[]>()
  generation.set(user, byCredential)
  const all = byCredential.get(credential) ?? []
  byCredential.set(credential, all)
  return all
}
