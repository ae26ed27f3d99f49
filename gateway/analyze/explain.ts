import { weighAuthority } from '../authorize/authority.ts'
import { needsWriting } from '../authorize/decide.ts'
import { GatewayError, type RefusalCode } from '../errors/gateway-error.ts'
import type { Policy } from '../policy/compile.ts'
import { describeRateLimit } from '../policy/rate-limit.ts'
import { type AbilitySet, canWriteSomething, holds, type Roles } from '../policy/role.ts'
import type { Route } from '../policy/route.ts'
import { readTarget } from '../receive/target.ts'
import { compileRoutes, type RouteMatch, type RouteTable } from '../route/table.ts'
import { isOutside, judge } from './evaluate.ts'
import { type Imagined, imagineCaller } from './hypothetical-caller.ts'

/** One check, in the order in which they are made; what was not reached or is not asked for is no check. */
export type ExplainedCheck = Readonly<{ check: string; isPassed: boolean; why: string }>

export type Explanation = Readonly<{
  /** What the caller would get: 200 stands for whatever the upstream answers. */
  status: number
  /** `allowed`, or the code of the refusal. */
  outcome: 'allowed' | RefusalCode
  /** The row that decided, and where it stands. */
  route: string | undefined
  source: string | undefined
  checks: readonly ExplainedCheck[]
}>

export type ExplainedRequest = Readonly<{
  method: string
  target: string
  host: string
  caller: Imagined | undefined
  /** Where a caller who is known has no organization that the request could be in. */
  refusal?: GatewayError | undefined
}>

/** Says what a request would get and why, by the very stages that judge requests; many ask one compiled table. */
export function explain(
  { routes, roles }: Policy,
  { method, target, host, caller, refusal }: ExplainedRequest,
  table: RouteTable = compileRoutes(routes),
): Explanation {
  const checks: ExplainedCheck[] = []
  const note: Note = (check, isPassed, why) => {
    // The first that fails is the last that is made.
    if (checks.at(-1)?.isPassed !== false) checks.push({ check, isPassed, why })
  }
  let match: RouteMatch | undefined
  try {
    match = table.match(readTarget(method, target, host), host)
  } catch (error) {
    const { status, code, message } = GatewayError.from(error)
    note(status === 400 ? 'target' : 'route', false, message)
    return { status, outcome: code, route: undefined, source: undefined, checks }
  }
  const { route, params } = match
  const values = [...params].map(([name, value]) => `, ${name} = ${value}`).join('')
  note('route', true, `${[...route.methods].join(' ')} ${route.path}${values}`)
  const outcome = refusal && !route.isPublic ? refusal.code : judge(route, caller, roles)
  if (route.isPublic) note('public', true, 'no credential is read')
  else if (refusal) note('organization', false, refusal.message)
  else if (!caller) note('credential', false, 'there is none')
  else explainCaller(route, caller, roles, note)
  if (route.rateLimit && outcome === 'allowed') note('rate limit', true, describeRateLimit(route.rateLimit))
  const status = outcome === 'allowed' ? 200 : new GatewayError(outcome).status
  return { status, outcome, route: route.id, source: route.source, checks }
}

type Note = (check: string, isPassed: boolean, why: string) => void

function explainCaller(route: Route, imagined: Imagined, roles: Roles, note: Note): void {
  const caller = imagineCaller(imagined, route.resource)
  const authority = weighAuthority(caller.principal, caller.organization, roles)
  const held = authority.isBypassing
    ? `a bypass scope (${authority.bypassScopes.join(', ')}) stands in for ${authority.role?.slug}`
    : (authority.role?.slug ?? 'no role: no organization is in force')
  note('credential', true, caller.principal.proof.kind === 'oauth' ? 'an OAuth token' : 'an API token')
  if (route.organizationParam !== undefined)
    note('organization', !isOutside(route, imagined), `:${route.organizationParam} must be one of the caller's own`)
  const isPublicAgent = route.resource !== undefined && caller.resource?.agent?.isPublic === true
  if (route.role && isPublicAgent) note('role', true, 'a public agent needs none')
  else if (route.role) note('role', (authority.role?.rank ?? 0) >= route.role.rank, `${route.role.slug}; held: ${held}`)
  if (route.ability !== undefined) {
    const set = isPublicAgent ? authority.credentialAbilities : authority.abilities
    note('ability', holds(set, route.ability), `${route.ability}; effective: ${describeAbilities(set)}`)
  }
  if (needsWriting(route) && caller.principal.proof.kind === 'api-token') {
    const { abilities } = authority
    note('ability', canWriteSomething(abilities), `any that writes; effective: ${describeAbilities(abilities)}`)
  }
  if (route.resource) {
    const isOwn = caller.resource?.agent?.organizationId === caller.organization?.id
    const whose = isPublicAgent ? 'a public agent' : isOwn ? 'an agent of the organization in force' : 'another’s agent'
    note('resource', isPublicAgent || (isOwn && caller.organization !== undefined), whose)
  }
}

const describeAbilities = (set: AbilitySet): string => (set === '*' ? 'all' : [...set].sort().join(' ') || 'none')
