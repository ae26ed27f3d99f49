import { type AbilitySet, intersect, type Meanings, type OrganizationRole, type Roles } from '../../policy/role.ts'
import type { Principal } from '../authenticate/principal.ts'
import type { Organization } from '../resolve/organization.ts'

export type Permissions = Readonly<{
  role: OrganizationRole | undefined
  credentialAbilities: AbilitySet
  /** Abilities that both credential and role allow (specification, "Roles and authorization", rule 3). */
  abilities: AbilitySet
  bypassScopes: readonly string[]
  isBypassing: boolean
  meanings: Meanings
}>

const nothing: ReadonlySet<string> = new Set()

export function effectivePermissions(
  principal: Principal,
  organization: Organization | undefined,
  roles: Roles,
): Permissions {
  const credentialAbilities = readCredentialAbilities(principal)
  const bypassScopes = listBypassScopes(principal, roles)
  // A bypass scope never replaces membership, so it counts only within an organization in force.
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
    meanings: roles.meanings,
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

/** The role alone bounds a JWT without mapped scopes. In a token, `*` is AdonisJS' notation for all abilities. */
function readCredentialAbilities({ credential }: Principal): AbilitySet {
  switch (credential.kind) {
    case 'oauth':
      return credential.abilities === undefined ? '*' : setOf(credential.abilities)
    case 'api-token':
      return setOf(credential.abilities)
    default:
      return credential satisfies never
  }
}

const sets = new WeakMap<readonly string[], AbilitySet>()

function setOf(abilities: readonly string[]): AbilitySet {
  const known = sets.get(abilities)
  if (known) return known
  const set: AbilitySet = abilities.includes('*') ? '*' : new Set(abilities)
  sets.set(abilities, set)
  return set
}

const common = new WeakMap<ReadonlySet<string>, WeakMap<ReadonlySet<string>, AbilitySet>>()

/** Caches `intersect` for each pair of sets; a reload of the policy makes new sets. */
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
