import { GatewayError, type RefusalCause } from '../../base/errors/gateway-error.ts'
import type { UserRecord } from '../../directory/directory.ts'
import type { OrganizationRole, Roles } from '../../policy/role.ts'
import { findMembership } from '../resolve/organization.ts'

/**
 * A token acts wherever its account is a member, so minting one lends all rights of the account. The caller must hold a
 * role that manages in each of these organizations, and its role here must not be lower than the account's (SPEC section
 * 6).
 */
export function requireReach(caller: UserRecord, account: UserRecord, organizationId: number, roles: Roles): void {
  requireMember(account, organizationId)
  const cause = findBeyond(caller, account, organizationId, roles)
  if (cause) throw new GatewayError(cause)
}

/** Whether the caller may mint for the account, and so see and revoke each of its tokens (SPEC section 6). */
export function mayMintFor(caller: UserRecord, account: UserRecord, organizationId: number, roles: Roles): boolean {
  requireMember(account, organizationId)
  return findBeyond(caller, account, organizationId, roles) === undefined
}

function requireMember(account: UserRecord, organizationId: number): void {
  if (!findMembership(account, organizationId)) throw new GatewayError('user_not_a_member')
}

function findBeyond(
  caller: UserRecord,
  account: UserRecord,
  organizationId: number,
  roles: Roles,
): RefusalCause | undefined {
  for (const { organization, role } of account.roles) {
    if (!organization) {
      if (roles.platform.get(role)?.isBypassScope === true) return 'account_has_bypass_scope'
      continue
    }
    const held = findRole(caller, organization.id, roles)
    if (!held || held.rank < roles.meanings.manages.rank) return 'account_in_foreign_organization'
    if (organization.id === organizationId && (roles.organization.get(role)?.rank ?? 0) > held.rank)
      return 'account_role_higher'
  }
  return undefined
}

function findRole(user: UserRecord, organizationId: number, roles: Roles): OrganizationRole | undefined {
  const held = findMembership(user, organizationId)
  if (!held) return undefined
  const isBypassing = user.roles.some(
    ({ organization, role }) => organization === null && roles.platform.get(role)?.isBypassScope === true,
  )
  return isBypassing ? roles.highest : roles.organization.get(held.role)
}
