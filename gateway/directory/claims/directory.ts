import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { DeclaredOrganization, DeclaredOrganizations } from '../../policy/organizations.ts'
import type { Roles } from '../../policy/role.ts'
import {
  type AssertedMembership,
  type AssertedUser,
  type Assertions,
  type Directory,
  type DirectoryFacts,
  type FactKeys,
  type IdentityName,
  type KnownUser,
  nameIdentity,
  type RoleAssignment,
} from '../directory.ts'

export type ClaimsPolicy = Readonly<{ roles: Roles; organizations: DeclaredOrganizations }>

export type ClaimsDirectory = Readonly<{
  directory: Directory<KnownUser>
  readFacts: (keys: FactKeys) => Promise<DirectoryFacts>
}>

/** A directory without a store: a verified JWT asserts its user, and the policy says what counts of it. */
export function createClaimsDirectory(policy: () => ClaimsPolicy): ClaimsDirectory {
  // One record for each verified JWT, since identity headers are cached by it; a reload replaces all of them.
  let users = new WeakMap<Assertions, AssertedUser>()
  let inForce: ClaimsPolicy | undefined
  const findUser = ({ issuer, subject, assertions }: IdentityName): AssertedUser | undefined => {
    if (assertions === undefined) return undefined
    const current = policy()
    if (current !== inForce) users = new WeakMap()
    inForce = current
    const known = users.get(assertions)
    if (known) return known
    const user = toUser({ issuer, subject, assertions }, current)
    users.set(assertions, user)
    return user
  }
  return {
    directory: {
      findByIdentity: findUser,
      findToken: () => undefined,
      noteTokenUse: () => undefined,
      ping: async () => undefined,
      createByIdentity: refuse,
      verifyEmail: refuse,
      findOrganization: refuse,
      findAgent: refuse,
      findResource: refuse,
      findCluster: refuse,
      findMember: refuse,
      findNamedMember: refuse,
      listMembers: refuse,
      findUniqueNames: refuse,
      listAgents: refuse,
      listResources: refuse,
      mintToken: refuse,
      listTokens: refuse,
      revokeToken: refuse,
      switchOrganization: refuse,
    },
    readFacts: async ({ identities }) => ({
      users: new Map(
        identities.flatMap((identity) => {
          const user = findUser(identity)
          return user ? [[nameIdentity(identity), user] as const] : []
        }),
      ),
      tokens: new Map(),
      agents: new Map(),
      clusters: new Map(),
      findResource: () => undefined,
    }),
  }
}

export const refuse = async (): Promise<never> => {
  throw new GatewayError('not_available')
}

function toUser(
  { issuer, subject, assertions }: IdentityName & Readonly<{ assertions: Assertions }>,
  policy: ClaimsPolicy,
): AssertedUser {
  const { profile, userType, platformRoles, memberships } = assertions
  const { firstName, lastName } = profile
  const platform = platformRoles
    .filter((role) => policy.roles.platform.has(role))
    .map((role, index): RoleAssignment => ({ id: index + 1, role, organization: null }))
  return {
    id: undefined,
    name: `${issuer}|${subject}`,
    email: profile.email,
    emailVerified: profile.isEmailVerified,
    username: profile.username,
    firstName,
    lastName,
    fullName: [firstName, lastName].filter((name) => name !== null).join(' ') || null,
    userType,
    currentOrganizationId: null,
    roles: [...assignRoles(memberships, policy), ...platform],
  }
}

/**
 * One role for each organization, the highest of those asserted; the organizations in the order of the policy. A role or
 * an organization that the policy does not declare gives nothing.
 */
export function assignRoles(
  memberships: readonly AssertedMembership[],
  { roles, organizations }: ClaimsPolicy,
): readonly RoleAssignment[] {
  const highest = new Map<DeclaredOrganization, string>()
  for (const membership of memberships) {
    const organization =
      'slug' in membership
        ? organizations.bySlug.get(membership.slug)
        : organizations.byClaim.get(membership.issuer)?.get(membership.value)
    const rank = roles.organization.get(membership.role)?.rank
    if (organization === undefined || rank === undefined) continue
    const held = roles.organization.get(highest.get(organization) ?? '')?.rank ?? 0
    if (rank > held) highest.set(organization, membership.role)
  }
  return [...organizations.bySlug.values()].flatMap((organization) => {
    const role = highest.get(organization)
    return role === undefined ? [] : [{ id: -organization.id, role, organization }]
  })
}
