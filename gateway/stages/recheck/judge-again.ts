import { GatewayError } from '../../base/errors/gateway-error.ts'
import { type DirectoryFacts, nameIdentity, type SessionEnd } from '../../directory/directory.ts'
import { isSameRewrite } from '../../policy/path-rewrite.ts'
import type { Roles } from '../../policy/role.ts'
import type { Principal } from '../authenticate/principal.ts'
import { decide, enforce } from '../authorize/decide.ts'
import { composeConsultation } from '../consult/compose.ts'
import { readTarget } from '../receive/target.ts'
import { findLabelled, findMembership, type Organization } from '../resolve/organization.ts'
import { parseId } from '../resolve/organization-id.ts'
import { resolveResource } from '../resolve/resource.ts'
import type { RouteMatch, RouteTable } from '../route/table.ts'
import { type AccessEnd, clusterIdOf, type OpenExchange } from './open-exchange.ts'

export type CurrentPolicy = Readonly<{ table: RouteTable; roles: Roles }>

/** A request that is sent again soon finds the new way by itself. */
export const routeChanged = (): GatewayError => new GatewayError('route_changed', { retryAfter: '1' })

/** Until the head is written, no upstream knows of the request, so that it may be sent again. */
const ledElsewhere = ({ isForwarded, exchange }: OpenExchange): GatewayError =>
  isForwarded || exchange.hasStarted ? new GatewayError('route_not_found') : routeChanged()

/**
 * The route of the policy in force for the opening's method, host and path. Throws like a new request, and if the route
 * leads elsewhere, which permits nothing of this exchange.
 */
export function matchAgain(open: OpenExchange, { table }: CurrentPolicy): RouteMatch {
  const { exchange, host, upstreamName, rewrite } = open
  const target = readTarget(exchange.method, exchange.target, host, exchange.target.length)
  const match = table.match(target, host)
  const { destination, isWebSocket } = match.route
  const mayBeSwitched = open.asksForWebSocket && (exchange.status === 101 || !exchange.hasStarted)
  const isBarred = mayBeSwitched && !isWebSocket
  const isSamePlace =
    destination.kind !== 'upstream' ||
    (destination.name === upstreamName && isSameRewrite(rewrite, match.route.rewrite, target.path))
  if (isBarred || !isSamePlace || destination.kind === 'answer') throw ledElsewhere(open)
  return match
}

/**
 * Decides again with the opening's organization, credential, host, path and upstream, on fresh facts. Undefined if the
 * exchange may go on. A stored organization that was switched meanwhile decides nothing here.
 */
export function judgeAgain(
  open: OpenExchange,
  match: RouteMatch,
  facts: DirectoryFacts,
  { roles }: CurrentPolicy,
  at: Date,
): AccessEnd | undefined {
  let principal: Principal | undefined
  try {
    principal = judgeCredential(open, facts, at)
  } catch (error) {
    return endedBy(error, true)
  }
  try {
    if (match.route.isPublic || principal === undefined) open.keepPermit(enforce(decide(match, undefined, roles)))
    else {
      const organization = findOrganization(open, match, principal)
      const now = { findAgent: (id: number) => facts.agents.get(id), findResource: facts.findResource }
      const resource = resolveResource(match, organization, now, open.idHeader)
      if (resource instanceof Promise) throw new GatewayError('internal')
      open.noteResource(match, resource)
      const decision = decide(match, { principal, organization, resource }, roles)
      if (decision.isAllowed && decision.pending) {
        open.consultation = composeConsultation(match, decision.pending.caller)
        open.keepPending(decision.pending)
      } else {
        open.keepPermit(enforce(decision))
        open.consultation = undefined
      }
    }
    if (match.route.destination.kind === 'cluster') requireCluster(open, clusterIdOf(match), facts)
    return undefined
  } catch (error) {
    return endedBy(error, false)
  }
}

export function endedBy(error: unknown, isCredential: boolean): AccessEnd {
  const refusal = GatewayError.from(error)
  const code = refusal.exactCause === 'token_expired' ? 'credential_expired' : 'access_revoked'
  return { code, refusal, isCredential }
}

/** The credential may be good still, but its session is over: its client must present it again. */
export const orderedBy = ({ id }: SessionEnd): AccessEnd => ({
  code: 'access_revoked',
  refusal: new GatewayError('session_ended'),
  isCredential: true,
  sessionEndId: id,
})

export const unverified = (): AccessEnd => ({
  code: 'access_unverified',
  refusal: new GatewayError('directory_unavailable'),
  isCredential: false,
})

function judgeCredential({ proof, userId }: OpenExchange, facts: DirectoryFacts, at: Date): Principal | undefined {
  if (!proof) return undefined
  const principal =
    proof.kind === 'oauth'
      ? proof.judge(facts.users.get(nameIdentity(proof)))
      : proof.judge(facts.tokens.get(proof.id), at)
  if (principal.user.id !== userId) throw new GatewayError('user_gone')
  return principal
}

function findOrganization(
  { organizationId }: OpenExchange,
  { route, params, hostLabel }: RouteMatch,
  { user }: Principal,
): Organization | undefined {
  const { organizationParam } = route
  if (organizationParam !== undefined && parseId(params.get(organizationParam) ?? '') !== organizationId)
    throw new GatewayError('organization_contradiction')
  // The slug may be another organization's by now.
  if (hostLabel !== undefined && findLabelled(user, hostLabel)?.id !== organizationId)
    throw new GatewayError('host_not_a_member')
  if (organizationId === undefined) return undefined
  const organization = findMembership(user, organizationId)
  if (!organization) throw new GatewayError('membership_lost')
  return organization
}

/** A heartbeat that is late ends nothing: the connection itself shows whether the cluster is up. */
function requireCluster(open: OpenExchange, id: number | undefined, { clusters }: DirectoryFacts): void {
  const cluster = id === undefined ? undefined : clusters.get(id)
  if (!cluster) throw new GatewayError('cluster_unknown')
  if (cluster.organizationId !== open.organizationId) throw new GatewayError('cluster_foreign')
  if (cluster.isDeleting) throw new GatewayError('cluster_deleting')
  if (cluster.isSuspended) throw new GatewayError('cluster_suspended')
  const isThere = URL.canParse(cluster.baseUrl) && new URL(cluster.baseUrl).origin === open.clusterOrigin
  if (!isThere || open.upstreamName !== `cluster:${id}`) throw ledElsewhere(open)
}
