import type { Configuration } from '../configuration/configuration.ts'
import type { Policy } from '../policy/compile.ts'
import { ConfigurationError, type Problem } from '../policy/configuration-error.ts'
import { suggestName } from '../policy/near-name.ts'
import { isByRoleAlone } from './lint.ts'

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

/** The gateway takes a header of tokens out of each request, so a resource would never be named by it. */
export function checkResourceHeaders(
  { issuers }: Pick<Configuration, 'issuers'>,
  { routes }: Pick<Policy, 'routes'>,
): void {
  const issuerOf = new Map(
    issuers.flatMap(({ issuer, tokens }) => (tokens.headers ?? []).map((name) => [name, issuer])),
  )
  const problems = routes.flatMap(({ id, source, resource }) => {
    const name = resource?.place.in === 'header' ? resource.place.name : ''
    const issuer = issuerOf.get(name)
    if (issuer === undefined) return []
    const fault = `takes its resource from the header "${name}", which carries tokens of ${issuer} (tokens.headers)`
    return [placeProblem(source, `route "${id}" ${fault}; use another header`)]
  })
  if (problems.length > 0) throw new ConfigurationError(problems)
}

/**
 * Scopes bound the abilities of a JWT, so they bound nothing where a route asks for none. An operator who maps scopes
 * relies on them. A running gateway goes on with such routes, since `scopes` bounded the JWTs of the others all along.
 */
export function checkScopes({ issuers }: Pick<Configuration, 'issuers'>, { routes }: Pick<Policy, 'routes'>): void {
  const scoped = issuers.filter(({ scopes }) => scopes).map(({ issuer }) => issuer)
  if (scoped.length === 0) return
  const problems = routes.filter(isByRoleAlone).map(({ id, source }) => {
    const fault = `requires a role and no ability: every JWT of ${scoped.join(', ')} passes, whatever its scopes`
    return placeProblem(source, `route "${id}" ${fault}; require an ability, which "scopes" can grant`)
  })
  if (problems.length > 0) throw new ConfigurationError(problems)
}

function placeProblem(source: string, message: string): Problem {
  const [, file = source, line] = /^(.*):(\d+)$/.exec(source) ?? []
  return line === undefined ? { file, message } : { file, line: Number(line), message }
}
