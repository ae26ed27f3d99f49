import type { RefusalCode } from '../../base/errors/gateway-error.ts'
import type { ObserveRequest } from '../../observe/request-record.ts'
import {
  compareVerdicts,
  describeForwarded,
  type Facts,
  judgeShadow,
  type ShadowTable,
  type Verdict,
} from './compare.ts'
import type { Difference, ReportDifference } from './report.ts'

/** Refusals by policy; all others depend on the request's form or on an internal error. */
const comparable: ReadonlySet<RefusalCode> = new Set([
  'target_misreadable',
  'target_malformed',
  'route_not_found',
  'method_not_allowed',
  'unauthenticated',
  'ambiguous_credentials',
  'invalid_organization_id',
  'not_a_member',
  'organization_forbidden',
  'role_insufficient',
  'ability_missing',
  'resource_not_found',
  'decision_refused',
])

type Gathered = { -readonly [Name in keyof Facts]?: Facts[Name] }

/**
 * Gives the shadow policy the facts of the live stages, and reports a different decision. Its errors do not reach the
 * request.
 */
export const observeShadow =
  (shadow: () => ShadowTable | undefined, report: ReportDifference): ObserveRequest =>
  (next, _exchange, requestId) => {
    const other = shadow()
    if (!other) return next
    /** Released with the decision: a stream would hold it until its end. */
    let gathered: Gathered | undefined = {}
    const compare = (outcome: Verdict['outcome']): void => {
      const facts = readFacts(gathered)
      gathered = undefined
      if (!facts) return
      const forwarded = outcome === 'allowed' && facts.match ? describeForwarded(facts.match) : {}
      const live = { route: facts.match?.route.id, outcome, ...forwarded }
      // A preflight is allowed without a route, so no policy judges it.
      if (outcome === 'allowed' && !facts.match) return
      try {
        const difference = ask(other, facts, live, requestId)
        if (difference) report(difference)
      } catch {
        // The report failed too, and the request must not.
      }
    }
    const gather = (facts: Gathered): void => {
      if (gathered) Object.assign(gathered, facts)
    }
    return {
      onClient: (client) => next.onClient(client),
      onOrganization: (organization) => next.onOrganization(organization),
      onUpstream: (upstream) => next.onUpstream(upstream),
      onSettled: () => next.onSettled(),
      onUnrecorded: (error) => next.onUnrecorded(error),
      onUpstreamRequestId: (id) => next.onUpstreamRequestId(id),
      onBug: (error) => next.onBug(error),
      onStreamFailure: (code, cause) => next.onStreamFailure(code, cause),
      onTarget: (target, host, headers) => {
        next.onTarget(target, host, headers)
        gather({ target, host, headers })
      },
      onMatch: (match) => {
        next.onMatch(match)
        gather({ match })
      },
      onPrincipal: (principal) => {
        next.onPrincipal(principal)
        gather({ principal })
      },
      onResource: (resource) => {
        next.onResource(resource)
        gather({ resource })
      },
      onAllowed: () => {
        next.onAllowed()
        compare('allowed')
      },
      onRefusal: (error) => {
        next.onRefusal(error)
        if (comparable.has(error.code)) compare(error.code)
        gathered = undefined
      },
    }
  }

/** An error counts as a difference, since the outcome is unknown. */
function ask(other: ShadowTable, facts: Facts, live: Verdict, requestId: string): Difference | undefined {
  try {
    const shadow = judgeShadow(other, facts, live)
    const kind = compareVerdicts(live, shadow)
    return kind && { kind, live, shadow, facts, requestId }
  } catch (error) {
    return { kind: 'failed', live, error, facts, requestId }
  }
}

function readFacts(gathered: Gathered | undefined): Facts | undefined {
  const { target, host, headers } = gathered ?? {}
  if (!target || host === undefined || !headers) return undefined
  return {
    target,
    host,
    headers,
    match: gathered?.match,
    principal: gathered?.principal,
    resource: gathered?.resource,
  }
}
