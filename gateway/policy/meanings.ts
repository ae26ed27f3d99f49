import type { Problem } from './configuration-error.ts'
import type { MeaningContent, PolicyFile } from './file.ts'
import { suggestName } from './near-name.ts'
import type { Meanings, OrganizationRole } from './role.ts'

type Ladder = Readonly<{ roles: ReadonlyMap<string, OrganizationRole>; highest: OrganizationRole }>

const specifiedLadder = ['org-client', 'org-member', 'org-admin', 'org-owner']

/** After a mistake, the highest role stands in for each that is missing, so that later mistakes are found as well. */
export function compileMeanings(
  declaring: PolicyFile | undefined,
  listing: PolicyFile,
  ladder: Ladder,
  problems: Problem[],
): Meanings {
  const content = declaring?.content.meanings
  if (!declaring || !content) return compileSpecified(listing, ladder, problems)
  const { roles, highest } = ladder
  const refuse = (path: readonly (string | number)[], message: string): void =>
    void problems.push(declaring.problemAt(['meanings', ...path], message))
  const find = (key: 'reads' | 'writes' | 'manages' | 'owns', { role: slug }: MeaningContent): OrganizationRole => {
    const role = roles.get(slug)
    if (!role) refuse([key, 'role'], `role "${slug}" is not listed; ${suggestName(slug, roles.keys())}`)
    return role ?? highest
  }
  const take = (key: 'writes' | 'manages', { abilities = [] }: MeaningContent): ReadonlySet<string> => {
    for (const [index, ability] of abilities.entries())
      if (!highest.abilities.has(ability))
        refuse([key, 'abilities', index], `no role grants "${ability}"; ${suggestName(ability, highest.abilities)}`)
    return new Set(abilities)
  }
  const [executes = highest] = roles.values()
  const reads = content.reads ? find('reads', content.reads) : executes
  const writes = find('writes', content.writes)
  const manages = find('manages', content.manages)
  const owns = find('owns', content.owns)
  if (reads.rank > writes.rank)
    refuse(['reads', 'role'], `role "${reads.slug}" is above "${writes.slug}", which writes`)
  for (const [key, role] of Object.entries({ writes, manages }))
    if (role.rank > owns.rank) refuse([key, 'role'], `role "${role.slug}" is above "${owns.slug}", which owns`)
  const writeAbilities = take('writes', content.writes)
  return { executes, reads, writes, manages, owns, writeAbilities, manageAbilities: take('manages', content.manages) }
}

function compileSpecified(file: PolicyFile, { roles, highest }: Ladder, problems: Problem[]): Meanings {
  const ranks = specifiedLadder.map((slug) => roles.get(slug)?.rank ?? 0)
  if (ranks.some((rank, index) => rank <= (ranks[index - 1] ?? 0))) {
    const order = specifiedLadder.join(', ')
    const message = `must list ${order} in this order, or say in "meanings" which roles write, manage and own`
    problems.push(file.problemAt(['organizationRoles'], message))
  }
  const [executes = highest, reads = highest, writes = highest, owns = highest] = specifiedLadder.map((slug) =>
    roles.get(slug),
  )
  const manageAbilities = new Set(['organizations:write'])
  return { executes, reads, writes, manages: writes, owns, writeAbilities: undefined, manageAbilities }
}
