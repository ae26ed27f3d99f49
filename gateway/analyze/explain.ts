import { findRefusal, GatewayError, type RefusalCode } from '../base/errors/gateway-error.ts'
import type { Policy } from '../policy/compile.ts'
import { isLabel } from '../policy/host.ts'
import { rewritePath } from '../policy/path-rewrite.ts'
import { describeQuestion } from '../policy/questions.ts'
import { describeRateLimit } from '../policy/rate-limit.ts'
import type { AbilitySet, Roles } from '../policy/role.ts'
import type { Route } from '../policy/route.ts'
import {
  abilitiesInForce,
  type CallerWithPermissions,
  ownsAgent,
  type RouteCheck,
  routeChecks,
  runsPublicAgent,
  seesObject,
} from '../stages/authorize/decide.ts'
import { effectivePermissions, type Permissions } from '../stages/authorize/permissions.ts'
import { readTarget } from '../stages/receive/target.ts'
import { readResourceIds } from '../stages/resolve/resource-ids.ts'
import { compileRoutes, type RouteMatch, type RouteTable } from '../stages/route/table.ts'
import { evaluate, isForeignOrganization } from './evaluate.ts'
import { createHypotheticalCaller, type HypotheticalCaller } from './hypothetical-caller.ts'

export type ExplainedCheck = Readonly<{ check: string; isPassed: boolean; why: string }>

export type Explanation = Readonly<{
  status: number
  outcome: 'allowed' | RefusalCode
  route: string | undefined
  source: string | undefined
  upstreamPath?: string
  asks?: readonly string[]
  checks: readonly ExplainedCheck[]
}>

export type ExplainedRequest = Readonly<{
  method: string
  target: string
  host: string
  caller: HypotheticalCaller | undefined
  refusal?: GatewayError | undefined
}>

export function explain(
  { routes, roles }: Policy,
  { method, target, host, caller, refusal }: ExplainedRequest,
  table: RouteTable = compileRoutes(routes),
): Explanation {
  const checks: ExplainedCheck[] = []
  const note: Note = (check, isPassed, why) => {
    // After the first check that fails the gateway makes no other, so none is shown.
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
  const upstreamPath = route.rewrite && rewritePath(route.rewrite, match.target.path)
  const rewritten = upstreamPath === undefined ? '' : `; forwarded as ${upstreamPath}`
  note('route', true, `${[...route.methods].join(' ')} ${route.path}${values}${rewritten}`)
  const misread = caller && !readResourceIds(match, []) ? new GatewayError('query_like_guarded_param') : undefined
  const isUnnamed = caller && match.hostLabel !== undefined && !isLabel(match.hostLabel)
  const refused = refusal ?? (isUnnamed ? new GatewayError('host_not_a_member') : misread)
  const outcome = refused && !route.isPublic ? refused.code : evaluate(route, caller, roles)
  if (route.isPublic) note('public', true, 'no credential is read')
  else if (refused) note(refused.code === 'target_misreadable' ? 'target' : 'organization', false, refused.message)
  else if (!caller) note('credential', false, 'the request has none')
  else explainCaller(route, caller, roles, note)
  const asks = outcome === 'allowed' ? route.questions.map(({ pdp }) => pdp) : []
  if (asks.length > 0) note('decision', true, `not asked here; ${route.questions.map(describeQuestion).join(', ')}`)
  if (route.rateLimit && outcome === 'allowed') note('rate limit', true, describeRateLimit(route.rateLimit))
  const status = outcome === 'allowed' ? 200 : findRefusal(outcome).status
  const place = { route: route.id, source: route.source, ...(upstreamPath !== undefined && { upstreamPath }) }
  return { status, outcome, ...place, ...(asks.length > 0 && { asks: [...new Set(asks)] }), checks }
}

type Note = (check: string, isPassed: boolean, why: string) => void

function explainCaller(route: Route, hypothetical: HypotheticalCaller, roles: Roles, note: Note): void {
  const { principal, organization, resource } = createHypotheticalCaller(hypothetical, route.resource)
  const permissions = effectivePermissions(principal, organization, roles)
  const caller: CallerWithPermissions = { principal, organization, resource, permissions }
  note('credential', true, principal.credential.kind === 'oauth' ? 'an OAuth token' : 'an API token')
  const named = route.hostLabel === undefined ? route.organizationParam && `:${route.organizationParam}` : 'the label'
  if (named !== undefined)
    note('organization', !isForeignOrganization(route, hypothetical), `${named} must be one of the caller's own`)
  for (const { name, isPassed } of routeChecks) {
    const passed = isPassed(route, caller)
    if (passed !== undefined) note(name === 'writing' ? 'ability' : name, passed, reasons[name](route, caller))
  }
}

const reasons: Readonly<Record<RouteCheck['name'], (route: Route, caller: CallerWithPermissions) => string>> = {
  role: (route, caller) =>
    runsPublicAgent(route, caller)
      ? 'a public agent needs none'
      : `${route.role?.slug}; held: ${describeRole(caller.permissions)}`,
  ability: (route, caller) => `${route.ability}; effective: ${describeAbilities(abilitiesInForce(route, caller))}`,
  writing: (_, { permissions }) => `any that writes, effective: ${describeAbilities(permissions.abilities)}`,
  resource: (route, caller) => {
    const { resource } = route
    if (resource?.kind === 'object')
      return seesObject(route, caller)
        ? `a ${resource.object.name} that the caller may see`
        : `a ${resource.object.name} that is not visible`
    return runsPublicAgent(route, caller)
      ? 'a public agent'
      : ownsAgent(caller)
        ? 'an agent of the organization in force'
        : 'an agent of another organization'
  },
}

const describeRole = ({ isBypassing, bypassScopes, role }: Permissions): string =>
  isBypassing
    ? `a bypass scope (${bypassScopes.join(', ')}) stands in for ${role?.slug}`
    : (role?.slug ?? 'no role: no organization is in force')

const describeAbilities = (set: AbilitySet): string => (set === '*' ? 'all' : [...set].sort().join(' ') || 'none')
