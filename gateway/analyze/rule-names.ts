import type { Configuration } from '../configuration/configuration.ts'
import type { Policy } from '../policy/compile.ts'
import { ConfigurationError, type Problem } from '../policy/configuration-error.ts'
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

export function checkDecisionPoints(
  { decisionPoints }: Pick<Configuration, 'decisionPoints'>,
  { routes }: Pick<Policy, 'routes'>,
): void {
  const known = Object.keys(decisionPoints)
  const problems = routes.flatMap(({ id, source, questions }) =>
    questions.flatMap(({ pdp }) => {
      if (known.includes(pdp)) return []
      const advice = known.length === 0 ? 'decisionPoints has none' : suggestName(pdp, known)
      return [placeProblem(source, `route "${id}" asks decision point "${pdp}", which is not configured; ${advice}`)]
    }),
  )
  if (problems.length > 0) throw new ConfigurationError(problems)
}

function placeProblem(source: string, message: string): Problem {
  const [, file = source, line] = /^(.*):(\d+)$/.exec(source) ?? []
  return line === undefined ? { file, message } : { file, line: Number(line), message }
}
