import type { OrganizationRecord, RoleAssignment, UserRecord } from '../../directory/directory.ts'
import { canWriteSomething, holdsAny, type OrganizationRole, type Roles } from '../../policy/role.ts'
import type { Principal } from '../authenticate/principal.ts'
import type { PermittedCaller } from '../authorize/decide.ts'
import type { Permissions } from '../authorize/permissions.ts'

export function describeUser(
  caller: PermittedCaller,
  user: UserRecord,
  organization: OrganizationRecord | undefined,
  roles: Roles,
) {
  return {
    id: user.id,
    email: user.email,
    username: user.username,
    firstName: user.firstName,
    lastName: user.lastName,
    fullName: user.fullName,
    userType: user.userType,
    currentOrganizationId: user.currentOrganizationId,
    currentOrganization: organization ? describeOrganization(organization) : null,
    ...(organization ? describePermission(caller.permissions) : noPermission),
    currentAccessToken: describeToken(caller.principal),
    roles: user.roles.map((assignment) => describeRole(assignment, roles)),
  }
}

const noPermission = {
  canWriteToCurrentOrganization: null,
  canModifyCurrentOrganization: null,
  ownsCurrentOrganization: null,
  organizationUserPermission: null,
}

function describePermission({ role, abilities, meanings }: Permissions) {
  const { executes, reads, writes, manages, owns, manageAbilities } = meanings
  const isAtLeast = ({ rank }: OrganizationRole): boolean => (role?.rank ?? 0) >= rank
  const names = [
    [owns, 'own'] as const,
    [writes, 'write'] as const,
    [reads, 'read'] as const,
    [executes, 'execute'] as const,
  ]
  return {
    canWriteToCurrentOrganization: isAtLeast(writes) && canWriteSomething(abilities, meanings),
    canModifyCurrentOrganization: isAtLeast(manages) && holdsAny(abilities, manageAbilities),
    ownsCurrentOrganization: isAtLeast(owns),
    organizationUserPermission: names.find(([lowest]) => isAtLeast(lowest))?.[1] ?? null,
  }
}

function describeRole({ id, role: slug, organization }: RoleAssignment, roles: Roles) {
  const role: Pick<OrganizationRole, 'name' | 'description'> | undefined = organization
    ? roles.organization.get(slug)
    : roles.platform.get(slug)
  return {
    id,
    name: role?.name ?? slug,
    slug,
    description: role?.description ?? null,
    organizationId: organization?.id ?? null,
  }
}

const describeOrganization = (organization: OrganizationRecord) => ({
  id: organization.id,
  name: organization.name,
  slug: organization.slug,
  description: organization.description,
  logoUrl: organization.logoUrl,
  websiteUrl: organization.websiteUrl,
  contactEmail: organization.contactEmail,
  location: organization.location,
  companySize: organization.companySize,
  domain: organization.domain,
  accountType: organization.accountType,
  isVerified: organization.isVerified,
  memberCount: organization.memberCount === null ? null : String(organization.memberCount),
  createdAt: organization.createdAt?.toISOString() ?? null,
  updatedAt: organization.updatedAt?.toISOString() ?? null,
})

function describeToken({ credential }: Principal) {
  if (credential.kind === 'oauth')
    return {
      type: 'oauth',
      name: null,
      abilities: credential.abilities ?? ['*'],
      lastUsedAt: null,
      expiresAt: credential.expiresAt.toISOString(),
    }
  return {
    type: 'bearer',
    name: credential.name,
    abilities: credential.abilities,
    lastUsedAt: credential.lastUsedAt?.toISOString() ?? null,
    expiresAt: credential.expiresAt?.toISOString() ?? null,
  }
}
