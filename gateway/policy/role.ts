/** A role inside an organization. A higher rank satisfies any check that requires a lower one. */
export type OrganizationRole = Readonly<{
  slug: string
  name: string
  description: string | null
  rank: number
  abilities: ReadonlySet<string>
}>

export type PlatformRole = Readonly<{
  slug: string
  name: string
  description: string | null
  /** Whether its holder has the highest role in each of their organizations (SPEC section 5). */
  isBypassScope: boolean
}>

export type Meanings = Readonly<{
  executes: OrganizationRole
  reads: OrganizationRole
  writes: OrganizationRole
  manages: OrganizationRole
  owns: OrganizationRole
  /** Undefined: abilities whose names end in `:write`. */
  writeAbilities: ReadonlySet<string> | undefined
  manageAbilities: ReadonlySet<string>
}>

export type AbilitySet = ReadonlySet<string> | '*'

export type Roles = Readonly<{
  organization: ReadonlyMap<string, OrganizationRole>
  highest: OrganizationRole
  platform: ReadonlyMap<string, PlatformRole>
  tokenScopes: ReadonlyMap<string, ReadonlySet<string>>
  meanings: Meanings
}>

export const holds = (set: AbilitySet, ability: string): boolean => set === '*' || set.has(ability)

export const holdsAny = (set: AbilitySet, abilities: ReadonlySet<string>): boolean =>
  set === '*' || [...set].some((ability) => abilities.has(ability))

export const canWriteSomething = (set: AbilitySet, { writeAbilities }: Meanings): boolean =>
  writeAbilities ? holdsAny(set, writeAbilities) : set === '*' || [...set].some((ability) => ability.endsWith(':write'))

export function intersect(left: AbilitySet, right: AbilitySet): AbilitySet {
  if (left === '*') return right
  if (right === '*') return left
  return new Set([...left].filter((ability) => right.has(ability)))
}
