import { dirname } from 'node:path'
import type { Problem } from './configuration-error.ts'
import type { PolicyFile } from './file.ts'
import { compileMeanings } from './meanings.ts'
import { suggestName } from './near-name.ts'
import type { OrganizationRole, PlatformRole, Roles } from './role.ts'

export function compileRoles(files: readonly PolicyFile[], problems: Problem[]): Roles | undefined {
  const owner = onlyOwner(files, 'organizationRoles', problems)
  const platformOwner = onlyOwner(files, 'platformRoles', problems)
  const scopesOwner = onlyOwner(files, 'tokenScopes', problems)
  const organization = owner ? compileOrganizationRoles(owner, problems) : new Map<string, OrganizationRole>()
  const highest = [...organization.values()].at(-1)
  if (!owner || !highest) {
    const [first] = files
    const message = 'no policy file lists organizationRoles; write them as roles.yaml of the package does'
    if (first && !owner) problems.push({ file: dirname(first.name), message })
    return undefined
  }
  const platform = new Map<string, PlatformRole>(
    (platformOwner?.content.platformRoles ?? []).map(({ slug, name, description, bypass }) => [
      slug,
      { slug, name, description: description ?? null, isBypassScope: bypass === true },
    ]),
  )
  const granted = highest.abilities
  const tokenScopes = new Map(
    Object.entries(scopesOwner?.content.tokenScopes ?? {}).map(([scope, abilities]) => {
      for (const [index, ability] of abilities.entries())
        if (!granted.has(ability) && scopesOwner)
          problems.push(
            scopesOwner.problemAt(
              ['tokenScopes', scope, index],
              `no role grants "${ability}", so a scope cannot; ${suggestName(ability, granted)}`,
            ),
          )
      return [scope, new Set(abilities)] as const
    }),
  )
  const ladder = { roles: organization, highest }
  const meanings = compileMeanings(onlyOwner(files, 'meanings', problems), owner, ladder, problems)
  return { organization, highest, platform, tokenScopes, meanings }
}

function onlyOwner(files: readonly PolicyFile[], key: keyof PolicyFile['content'], problems: Problem[]) {
  const [owner, ...others] = files.filter(({ content }) => content[key] !== undefined)
  for (const other of others)
    problems.push(other.problemAt([key], `${key} are already in ${owner?.name}; keep them in one file`))
  return owner
}

function compileOrganizationRoles(file: PolicyFile, problems: Problem[]): ReadonlyMap<string, OrganizationRole> {
  const roles = new Map<string, OrganizationRole>()
  let inherited: readonly string[] = []
  for (const [index, row] of (file.content.organizationRoles ?? []).entries()) {
    if (roles.has(row.slug))
      problems.push(
        file.problemAt(['organizationRoles', index, 'slug'], `role "${row.slug}" is listed twice; keep one`),
      )
    inherited = [...inherited, ...row.abilities]
    const { slug, name, description } = row
    roles.set(slug, { slug, name, description: description ?? null, rank: index + 1, abilities: new Set(inherited) })
  }
  return roles
}
