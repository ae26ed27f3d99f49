// The organization in force, and the resource that the route guards.

import { GatewayError, type RefusalCause } from '../../base/errors/gateway-error.ts'
import type { OrganizationSummary, RoleAssignment, UserRecord } from '../../directory/directory.ts'
import { isLabel } from '../../policy/host.ts'
import type { Principal } from '../authenticate/principal.ts'
import type { RequestHeaders } from '../receive/headers.ts'
import type { RouteMatch } from '../route/table.ts'
import { parseId, readOrganizationCookie, readOrganizationId } from './organization-id.ts'

export type Organization = OrganizationSummary & Readonly<{ role: string }>

export type OrganizationHeaders = Pick<RequestHeaders, 'organizationId' | 'cookie'>

/** The route's path or host decides, then the header, then the cookie, then the user's last choice (SPEC section 3). */
export function resolveOrganization(
  principal: Principal,
  match: RouteMatch,
  headers: OrganizationHeaders,
): Organization | undefined {
  const { organizationParam } = match.route
  if (organizationParam !== undefined)
    return resolveFromPath(principal, match.params.get(organizationParam) ?? '', headers)
  if (match.hostLabel !== undefined) return resolveFromHost(principal, match.hostLabel, headers)
  const named = readOrganizationId(headers.organizationId)
  if (named !== undefined) return requireMembership(principal, named, 'header_not_a_member')
  const remembered = readOrganizationCookie(headers.cookie)
  if (remembered !== undefined) return requireMembership(principal, remembered, 'cookie_not_a_member')
  return chooseMembership(principal)
}

/** After a revoked membership the user falls back to the oldest one, which is first in the list. */
function chooseMembership({ user }: Principal): Organization | undefined {
  let chosen: RoleAssignment | undefined
  for (const assignment of user.roles) {
    if (!assignment.organization) continue
    chosen ??= assignment
    if (assignment.organization.id !== user.currentOrganizationId) continue
    chosen = assignment
    break
  }
  return chosen?.organization ? asOrganization(chosen.organization, chosen.role) : undefined
}

function resolveFromPath(principal: Principal, segment: string, headers: OrganizationHeaders): Organization {
  // Read first: a malformed header is refused before a malformed path (SPEC section 5, order of refusal).
  const beside = readOrganizationId(headers.organizationId)
  const id = parseId(segment)
  if (id === undefined) throw new GatewayError('resource_id_malformed')
  // A header that contradicts the path would leave open which organization was authorized.
  if (beside !== undefined && beside !== id) throw new GatewayError('organization_contradiction')
  return requireMembership(principal, id, 'path_not_a_member')
}

/**
 * The id of a foreign organization is not looked up, so that a header beside its label tells nothing about it. A header
 * that names another organization of the caller contradicts the label in any case.
 */
function resolveFromHost({ user }: Principal, label: string, headers: OrganizationHeaders): Organization {
  const beside = readOrganizationId(headers.organizationId)
  const organization = findLabelled(user, label)
  const isOther = organization ? beside !== organization.id : beside !== undefined && findMembership(user, beside)
  if (beside !== undefined && isOther) throw new GatewayError('organization_contradiction')
  if (!organization) throw new GatewayError('host_not_a_member')
  return organization
}

/** None if two organizations of the user have the slug: an adopted database may allow that. */
export function findLabelled({ roles }: Pick<UserRecord, 'roles'>, label: string): Organization | undefined {
  if (!isLabel(label)) return undefined
  const [found, other] = roles.filter(({ organization }) => organization?.slug === label)
  return found?.organization && !other ? asOrganization(found.organization, found.role) : undefined
}

/** Clients cannot tell an unknown organization from a foreign one. */
function requireMembership(principal: Principal, id: number, cause: RefusalCause): Organization {
  const organization = findMembership(principal.user, id)
  if (!organization) throw new GatewayError(cause)
  return organization
}

export function findMembership({ roles }: Pick<UserRecord, 'roles'>, id: number): Organization | undefined {
  for (const { organization, role } of roles) if (organization?.id === id) return asOrganization(organization, role)
  return undefined
}

const asOrganization = (
  { id, externalId = null, slug, accountType, source }: OrganizationSummary,
  role: string,
): Organization => ({
  id,
  externalId,
  slug,
  accountType,
  source,
  role,
})
