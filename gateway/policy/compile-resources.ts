import type { Problem } from './configuration-error.ts'
import type { PolicyFile, ResourceContent } from './file.ts'
import { suggestName } from './near-name.ts'
import { listLevels, type ResourceKind, type ResourceKinds } from './resource-kind.ts'
import type { Roles } from './role.ts'

/** Each level is one more query of a request. A document in a folder of a project in a workspace has four. */
const mostLevels = 4

export function compileResources(files: readonly PolicyFile[], roles: Roles, problems: Problem[]): ResourceKinds {
  const rows = new Map<string, Readonly<{ row: ResourceContent; file: PolicyFile }>>()
  for (const file of files)
    for (const [name, row] of Object.entries(file.content.resources ?? {})) {
      const complain = (message: string) => problems.push(file.problemAt(['resources', name], message))
      if (rows.has(name)) complain(`is listed twice; keep one of the two`)
      if (name === 'agent') complain('agents are a kind of the gateway; take another name')
      if (name === 'path') complain('questions about a path have this type; take another name')
      rows.set(name, { row, file })
    }
  const kinds = new Map<string, ResourceKind>()
  const compile = (name: string, descendants: readonly string[]): ResourceKind | undefined => {
    const known = kinds.get(name)
    const found = rows.get(name)
    if (known || !found) return known
    const { row, file } = found
    const refuse = (key: string, message: string): undefined => {
      problems.push(file.problemAt(['resources', name, key], `kind "${name}": ${message}`))
      return undefined
    }
    const line = [...descendants, name]
    const { parent: parentName, privateRole: slug } = row
    if (parentName !== undefined && !rows.has(parentName))
      return refuse('parent', `the parent "${parentName}" is not listed; ${suggestName(parentName, rows.keys())}`)
    if (parentName !== undefined && line.includes(parentName))
      return refuse('parent', `is its own ancestor (${[...line, parentName].join(' in ')}); leave one parent out`)
    const privateRole = slug === undefined ? undefined : roles.organization.get(slug)
    if (slug !== undefined && !privateRole)
      return refuse('privateRole', `role "${slug}" is not listed; ${suggestName(slug, roles.organization.keys())}`)
    if (privateRole && row.visibility !== true)
      return refuse('privateRole', 'nothing is private without "visibility"; set it to true, or remove "privateRole"')
    const parent = parentName === undefined ? undefined : compile(parentName, line)
    if (parentName !== undefined && !parent) return undefined
    const { id: idType, owner, visibility } = row
    const shape = { name, idType, hasOwner: owner === true, hasVisibility: visibility === true }
    const fingerprint = [...Object.values(shape), ...(parent ? [parent.fingerprint] : [])].join(' ')
    const decision = row.decision && { pdp: row.decision.pdp, action: row.decision.action }
    const kind = { ...shape, fingerprint, privateRole, parent, decision }
    if (listLevels(kind).length > mostLevels)
      return refuse('parent', `has more than ${mostLevels - 1} ancestors; leave out the farthest`)
    kinds.set(name, Object.freeze(kind))
    return kinds.get(name)
  }
  for (const name of rows.keys()) compile(name, [])
  return kinds
}
