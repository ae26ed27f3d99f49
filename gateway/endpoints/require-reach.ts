import type { UserRecord } from '../directory/directory.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import type { OrganizationRole, Roles } from '../policy/role.ts'
import { findMembership } from '../resolve/organization.ts'

/**
 * A token acts wherever its account is a member, so minting one lends all rights of the account. The caller must hold a
 * role that manages in each of these organizations, and its role here must not be lower than the account's (SPEC section
 * 6).
 */
export function requireReach(caller: UserRecord, account: UserRecord, organizationId: number, roles: Roles): void {
  for (const { organization, role } of account.roles) {
    if (!organization) {
      if (roles.platform.get(role)?.isBypassScope === true) throw new GatewayError('account_has_bypass_scope')
      continue
    }
    const held = findRole(caller, organization.id, roles)
    if (!held || held.rank < roles.meanings.manages.rank) throw new GatewayError('account_in_foreign_organization')
    if (organization.id === organizationId && (roles.organization.get(role)?.rank ?? 0) > held.rank)
      throw new GatewayError('account_role_higher')
  }
  if (!findMembership(account, organizationId)) throw new GatewayError('user_not_a_member')
}

function findRole(user: UserRecord, organizationId: number, roles: Roles): OrganizationRole | undefined {
  const held = findMembership(user, organizationId)
  if (!held) return undefined
  const isBypassing = user.roles.some(
    ({ organization, role }) => organization === null && roles.platform.get(role)?.isBypassScope === true,
  )
  return isBypassing ? roles.highest : roles.organization.get(held.role)
}
