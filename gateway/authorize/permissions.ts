import type { Principal } from '../authenticate/principal.ts'
import { type AbilitySet, intersect, type OrganizationRole, type Roles } from '../policy/role.ts'
import type { Organization } from '../resolve/organization.ts'

/** What a caller may do in the organization in force. */
export type Permissions = Readonly<{
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

/** Joins credential, membership and platform roles; an unknown role gives nothing. */
export function effectivePermissions(
  principal: Principal,
  organization: Organization | undefined,
  roles: Roles,
): Permissions {
  const credentialAbilities = readCredentialAbilities(principal)
  const bypassScopes = listBypassScopes(principal, roles)
  // A bypass scope never replaces membership: without an organization in force there is nothing to bypass.
  const isBypassing = organization !== undefined && bypassScopes.length > 0
  const held = organization && roles.organization.get(organization.role)
  const role = isBypassing ? roles.highest : held
  const roleAbilities: AbilitySet = isBypassing ? '*' : (role?.abilities ?? nothing)
  return {
    role,
    credentialAbilities,
    abilities: findCommon(credentialAbilities, roleAbilities),
    bypassScopes,
    isBypassing,
  }
}

const noScopes: readonly string[] = []

function listBypassScopes({ user }: Principal, roles: Roles): readonly string[] {
  let scopes: string[] | undefined
  for (const { organization, role } of user.roles) {
    if (organization !== null || roles.platform.get(role)?.isBypassScope !== true) continue
    scopes ??= []
    scopes.push(role)
  }
  return scopes ?? noScopes
}

/** An OAuth session is bounded by role alone; `*` in a token is AdonisJS' word for all. */
function readCredentialAbilities({ credential }: Principal): AbilitySet {
  switch (credential.kind) {
    case 'oauth':
      return '*'
    case 'api-token':
      return setOf(credential.abilities)
    default:
      return credential satisfies never
  }
}

const sets = new WeakMap<readonly string[], AbilitySet>()

/** The same set for the same record of a token: what is found out of it need be found out once. */
function setOf(abilities: readonly string[]): AbilitySet {
  const known = sets.get(abilities)
  if (known) return known
  const set: AbilitySet = abilities.includes('*') ? '*' : new Set(abilities)
  sets.set(abilities, set)
  return set
}

const common = new WeakMap<ReadonlySet<string>, WeakMap<ReadonlySet<string>, AbilitySet>>()

/** `intersect`, once for two sets: a reload of the table makes new ones. */
function findCommon(credential: AbilitySet, role: AbilitySet): AbilitySet {
  if (credential === '*' || role === '*') return intersect(credential, role)
  const byRole = common.get(credential) ?? new WeakMap<ReadonlySet<string>, AbilitySet>()
  common.set(credential, byRole)
  const known = byRole.get(role)
  if (known) return known
  const both = intersect(credential, role)
  byRole.set(role, both)
  return both
}
