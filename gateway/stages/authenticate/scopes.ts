import { createBoundedMap } from '../../base/lib/bounded-map.ts'

export type FindAbilities = (scopes: readonly unknown[]) => readonly string[]

/** As many as ten scopes have; a provider grants far fewer. A list that is left out is composed anew. */
const mostCombinations = 1_000

/**
 * Maps scopes to abilities; a scope without an entry grants nothing. JWTs of the same scopes share one list, since
 * permissions are cached by its identity.
 */
export function mapScopes(table: Readonly<Record<string, readonly string[]>>): FindAbilities {
  const entries = Object.entries(table)
  const lists = createBoundedMap<readonly string[]>(mostCombinations)
  return (scopes) => {
    const granted = new Set(scopes)
    const mapped = entries.filter(([scope]) => granted.has(scope))
    const key = mapped.map(([scope]) => scope).join(' ')
    const known = lists.get(key)
    if (known) return known
    const abilities = [...new Set(mapped.flatMap(([, granting]) => granting))].sort()
    lists.set(key, abilities)
    return abilities
  }
}
