import type { Configuration } from '../configuration/configuration.ts'
import type { Policy } from '../policy/compile.ts'
import { ConfigurationError } from '../policy/configuration-error.ts'
import { suggestName } from '../policy/near-name.ts'

export function checkRuleNames(
  { issuers, problemAt }: Pick<Configuration, 'issuers' | 'problemAt'>,
  { roles, organizations }: Pick<Policy, 'roles' | 'organizations'>,
): void {
  const known = {
    role: roles.organization,
    platformRole: roles.platform,
    organization: organizations.bySlug,
  } satisfies Readonly<Record<string, ReadonlyMap<string, unknown>>>
  const problems = issuers.flatMap(({ issuer, directoryRules = [] }, index) =>
    directoryRules.flatMap((rule, at) =>
      (['role', 'platformRole', 'organization'] as const).flatMap((key) => {
        const name = rule[key]
        if (name === undefined || known[key].has(name)) return []
        const fault = `${key} "${name}" is in no policy; ${suggestName(name, known[key].keys())}`
        return [problemAt(['issuers', index, 'directoryRules', at, key], `directoryRules of ${issuer}: ${fault}`)]
      }),
    ),
  )
  if (problems.length > 0) throw new ConfigurationError(problems)
}
