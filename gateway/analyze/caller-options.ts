import { suggestName } from '../policy/near-name.ts'
import type { Roles } from '../policy/role.ts'
import type { HypotheticalCaller } from './hypothetical-caller.ts'

export type CallerOptions = Readonly<{
  role?: string | undefined
  platformRoles?: readonly string[]
  scope?: string | undefined
  abilities?: readonly string[]
  agent?: HypotheticalCaller['agent']
  organization?: 'own' | 'foreign'
}>

export function findUnknown({ role, platformRoles = [], scope }: CallerOptions, roles: Roles): readonly string[] {
  const explain = (what: string, name: string | undefined, known: ReadonlyMap<string, unknown>): readonly string[] =>
    name === undefined || known.has(name) ? [] : [`there is no ${what} "${name}"; ${suggestName(name, known.keys())}`]
  return [
    ...explain('role', role, roles.organization),
    ...platformRoles.flatMap((platformRole) => explain('platform role', platformRole, roles.platform)),
    ...explain('scope', scope, roles.tokenScopes),
  ]
}

export function composeCallerFromWords(words: CallerOptions, roles: Roles): HypotheticalCaller {
  const { role, platformRoles = [], scope, abilities, agent = 'own', organization = 'own' } = words
  const granted = scope === undefined ? [] : [...(roles.tokenScopes.get(scope) ?? [])]
  const tokenAbilities = scope !== undefined || abilities ? [...granted, ...(abilities ?? [])] : undefined
  return { role, platformRoles, tokenAbilities, agent, pathOrganization: organization }
}
