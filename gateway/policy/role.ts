/** A role inside an organization. A higher rank satisfies any check that requires a lower one. */
export type OrganizationRole = Readonly<{
  slug: string
  name: string
  description: string | null
  /** 1 for the lowest. */
  rank: number
  /** Its own abilities and those of all lower roles. */
  abilities: ReadonlySet<string>
}>

/** A role on the whole platform. */
export type PlatformRole = Readonly<{
  slug: string
  name: string
  description: string | null
  /** Within an organization of its holder it stands in for the highest role (SPEC section 5). */
  isBypassScope: boolean
}>

/** `*` where nothing is withheld. */
export type AbilitySet = ReadonlySet<string> | '*'

/** All roles and token scopes of the table. */
export type Roles = Readonly<{
  organization: ReadonlyMap<string, OrganizationRole>
  /** What a bypass scope stands in for. */
  highest: OrganizationRole
  platform: ReadonlyMap<string, PlatformRole>
  tokenScopes: ReadonlyMap<string, ReadonlySet<string>>
}>

export const holds = (set: AbilitySet, ability: string): boolean => set === '*' || set.has(ability)

/** Whether anything may be changed with these. */
export const canWriteSomething = (set: AbilitySet): boolean =>
  set === '*' || [...set].some((ability) => ability.endsWith(':write'))

/** What both sets hold: no permission is ever more than its weakest part. */
export function intersect(left: AbilitySet, right: AbilitySet): AbilitySet {
  if (left === '*') return right
  if (right === '*') return left
  return new Set([...left].filter((ability) => right.has(ability)))
}
