import type { Principal } from '../authenticate/principal.ts'
import { type AbilitySet, intersect, type OrganizationRole, type Roles } from '../policy/role.ts'
import type { Organization } from '../resolve/organization.ts'

/** What a caller may do in the organization in force. */
export type Authority = Readonly<{
  /** The role that counts: the one held, or the highest under a bypass scope. */
  role: OrganizationRole | undefined
  /** What the credential allows, whatever the role. */
  credentialAbilities: AbilitySet
  /** Credential and role together (specification, "Roles and authorization", rule 3). */
  abilities: AbilitySet
  /** The bypass scopes that the caller holds; they count only within an organization. */
  bypassScopes: readonly string[]
  isBypassing: boolean
}>

const nothing: ReadonlySet<string> = new Set()

/** Weighs credential, membership and platform roles; an unknown role weighs nothing. */
export function weighAuthority(principal: Principal, organization: Organization | undefined, roles: Roles): Authority {
  const credentialAbilities = readCredentialAbilities(principal)
  const bypassScopes = principal.user.roles
    .filter(({ organization: at, role }) => at === null && roles.platform.get(role)?.isBypassScope === true)
    .map(({ role }) => role)
  // A bypass scope never replaces membership: without an organization in force there is nothing to bypass.
  const isBypassing = organization !== undefined && bypassScopes.length > 0
  const held = organization && roles.organization.get(organization.role)
  const role = isBypassing ? roles.highest : held
  const roleAbilities: AbilitySet = isBypassing ? '*' : (role?.abilities ?? nothing)
  return {
    role,
    credentialAbilities,
    abilities: intersect(credentialAbilities, roleAbilities),
    bypassScopes,
    isBypassing,
  }
}

/** An OAuth session is bounded by role alone; `*` in a token is AdonisJS' word for all. */
function readCredentialAbilities({ proof }: Principal): AbilitySet {
  switch (proof.kind) {
    case 'oauth':
      return '*'
    case 'api-token':
      return proof.abilities.includes('*') ? '*' : new Set(proof.abilities)
    default:
      return proof satisfies never
  }
}
