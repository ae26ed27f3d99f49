// A second policy beside the live one: it judges the same facts, decides nothing, and its differences are reported.
import { GatewayError, type RefusalCode } from '../../base/errors/gateway-error.ts'
import type { DecidingHeaders } from '../../observe/request-record.ts'
import { rewritePath } from '../../policy/path-rewrite.ts'
import { isSameQuestion } from '../../policy/questions.ts'
import type { Roles } from '../../policy/role.ts'
import type { Principal } from '../../stages/authenticate/principal.ts'
import { decide } from '../../stages/authorize/decide.ts'
import type { RequestTarget } from '../../stages/receive/target.ts'
import { resolveOrganization } from '../../stages/resolve/organization.ts'
import type { Resource } from '../../stages/resolve/resource.ts'
import { readResourceIds } from '../../stages/resolve/resource-ids.ts'
import type { RouteMatch, RouteTable } from '../../stages/route/table.ts'

export type ShadowTable = Readonly<{ table: RouteTable; roles: Roles }>

export type Facts = Readonly<{
  target: RequestTarget
  host: string
  headers: DecidingHeaders
  match: RouteMatch | undefined
  principal: Principal | undefined
  resource: Resource | undefined
}>

/** `unknown` if the shadow policy needs a fact that the live one did not look up. */
export type Verdict = Readonly<{
  route: string | undefined
  outcome: 'allowed' | 'unknown' | RefusalCode
  upstreamPath?: string
}>

const authentication: ReadonlySet<RefusalCode> = new Set(['unauthenticated', 'ambiguous_credentials'])

export function judgeShadow({ table, roles }: ShadowTable, facts: Facts, live: Verdict): Verdict {
  let route: string | undefined
  try {
    const match = table.match(facts.target, facts.host)
    route = match.route.id
    const forwarded = describeForwarded(match)
    if (match.route.isPublic) return { route, outcome: 'allowed', ...forwarded }
    const { principal } = facts
    if (!principal) return { route, outcome: isAuthentication(live.outcome) ? live.outcome : 'unknown' }
    const organization = resolveOrganization(principal, match, facts.headers)
    const ids = readResourceIds(match, facts.headers.passing)
    if (!ids) throw new GatewayError('query_like_guarded_param')
    if (match.route.resource && !isSameResource(match, ids, facts)) return { route, outcome: 'unknown' }
    const resource = match.route.resource && facts.resource
    const decision = decide(match, { principal, organization, resource }, roles)
    if (!decision.isAllowed) return { route, outcome: decision.reason }
    if (!decision.pending) return { route, outcome: 'allowed', ...forwarded }
    if (!isAskedAlike(match, facts.match) || !decided.has(live.outcome)) return { route, outcome: 'unknown' }
    return { route, outcome: live.outcome, ...(live.outcome === 'allowed' && forwarded) }
  } catch (error) {
    if (error instanceof GatewayError) return { route, outcome: error.code }
    throw error
  }
}

const decided: ReadonlySet<Verdict['outcome']> = new Set(['allowed', 'decision_refused'])

const isAskedAlike = ({ route }: RouteMatch, live: RouteMatch | undefined): boolean =>
  live !== undefined &&
  route.questions.length === live.route.questions.length &&
  route.questions.every((question) => live.route.questions.some((other) => isSameQuestion(question, other)))

export const describeForwarded = ({ route: { rewrite }, target }: RouteMatch): Pick<Verdict, 'upstreamPath'> =>
  rewrite ? { upstreamPath: rewritePath(rewrite, target.path) } : {}

const isAuthentication = (outcome: Verdict['outcome']): boolean =>
  outcome !== 'allowed' && outcome !== 'unknown' && authentication.has(outcome)

function isSameResource(match: RouteMatch, ids: readonly string[], facts: Facts): boolean {
  const wanted = match.route.resource
  const looked = facts.match?.route.resource
  if (!wanted || !looked || !facts.match || !facts.resource) return false
  const isSameId = readResourceIds(facts.match, facts.headers.passing)?.join('/') === ids.join('/')
  if (looked.kind === 'object' && wanted.kind === 'object') {
    const isAskedAlike =
      match.route.organizationParam === facts.match.route.organizationParam && match.hostLabel === facts.match.hostLabel
    return isAskedAlike && looked.object.fingerprint === wanted.object.fingerprint && isSameId
  }
  return looked.kind === wanted.kind && isSameId
}

export type DifferenceKind = 'gained' | 'lost' | 'other_route' | 'other_path' | 'other_refusal' | 'unknown'

export function compareVerdicts(live: Verdict, shadow: Verdict): DifferenceKind | undefined {
  if (shadow.outcome === 'unknown') return 'unknown'
  if (live.outcome === 'allowed' && shadow.outcome === 'allowed')
    return live.route !== shadow.route
      ? 'other_route'
      : live.upstreamPath === shadow.upstreamPath
        ? undefined
        : 'other_path'
  if (shadow.outcome === 'allowed') return 'gained'
  if (live.outcome === 'allowed') return 'lost'
  return live.outcome === shadow.outcome ? undefined : 'other_refusal'
}
