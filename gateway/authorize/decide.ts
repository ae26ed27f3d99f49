import type { Principal } from '../authenticate/principal.ts'
import { codeOf, GatewayError, type RefusalCause, type RefusalCode } from '../errors/gateway-error.ts'
import { type AbilitySet, canWriteSomething, holds, type Roles } from '../policy/role.ts'
import type { Route } from '../policy/route.ts'
import type { Organization } from '../resolve/organization.ts'
import type { Resource } from '../resolve/resource.ts'
import type { RouteMatch } from '../route/table.ts'
import { effectivePermissions, type Permissions } from './permissions.ts'

/** Who asks, and for what: everything that a decision about an authenticated request rests on. */
export type Caller = Readonly<{
  principal: Principal
  organization: Organization | undefined
  resource: Resource | undefined
}>

/** A caller with the authority that counts here. */
export type CallerWithPermissions = Caller & Readonly<{ permissions: Permissions }>

/** A caller whose authority has been weighed and found enough. */
export type PermittedCaller = CallerWithPermissions

/** The class is not exported: outside this file nobody can make one, and a look-alike is no instance. */
class IssuedPermit {
  // Not emitted as fields: to define them on each one takes V8 far longer than to set them.
  declare readonly match: RouteMatch
  /** Undefined on a public route, which knows no caller. */
  declare readonly caller: PermittedCaller | undefined
  readonly #isIssued = true

  constructor(match: RouteMatch, caller: PermittedCaller | undefined) {
    this.match = match
    this.caller = caller
  }

  static isIssued(value: object): boolean {
    return #isIssued in value && value.#isIssued
  }
}

// An instance would else hand its class to whoever holds it.
Object.defineProperty(IssuedPermit.prototype, 'constructor', { value: Object })

/** Proof that policy allowed this request. Only `decide` makes one; locate, pin and forward demand one. */
export type Permit = IssuedPermit

export type Decision = Readonly<
  { isAllowed: true; permit: Permit } | { isAllowed: false; reason: RefusalCode; cause: RefusalCause }
>

const allow = (match: RouteMatch, caller: PermittedCaller | undefined): Decision => ({
  isAllowed: true,
  permit: new IssuedPermit(match, caller),
})
const deny = (cause: RefusalCause): Decision => ({ isAllowed: false, reason: codeOf(cause), cause })

/** A condition of a route. */
export type RouteCheck = Readonly<{
  name: 'role' | 'ability' | 'writing' | 'resource'
  /** The cause of the refusal, once the check has failed. */
  nameCause: (route: Route, caller: CallerWithPermissions) => RefusalCause
  /** Undefined where the route does not ask for it. */
  isPassed: (route: Route, caller: CallerWithPermissions) => boolean | undefined
}>

/** All conditions in the order of their refusals: `decide` refuses by the first that fails, `explain` shows them. */
export const routeChecks: readonly RouteCheck[] = [
  {
    name: 'role',
    nameCause: (_, { organization, permissions }) =>
      organization === undefined ? 'no_organization' : permissions.role ? 'role_too_low' : 'role_unknown',
    isPassed: ({ role }, caller) =>
      role && (asksPublicAgent(caller) || (caller.permissions.role?.rank ?? 0) >= role.rank),
  },
  {
    name: 'ability',
    nameCause: ({ ability }, caller) => nameMissingAbility(ability, caller),
    isPassed: ({ ability }, caller) => (ability === undefined ? undefined : holds(abilitiesInForce(caller), ability)),
  },
  {
    name: 'writing',
    nameCause: () => 'token_read_only',
    isPassed: (route, caller) =>
      needsWriting(route) && caller.principal.credential.kind === 'api-token' && !asksPublicAgent(caller)
        ? canWriteSomething(caller.permissions.abilities)
        : undefined,
  },
  {
    name: 'resource',
    nameCause: (_, { organization, resource }) =>
      !resource?.agent ? 'resource_unknown' : organization ? 'resource_foreign' : 'no_organization_for_resource',
    isPassed: ({ resource }, caller) => resource && (asksPublicAgent(caller) || ownsResource(caller)),
  },
]

/** Which of the two lacks the ability: a token that has it may still be held back by the role of its owner. */
function nameMissingAbility(ability: string | undefined, caller: CallerWithPermissions): RefusalCause {
  const { organization, permissions } = caller
  if (ability !== undefined && !holds(permissions.credentialAbilities, ability)) return 'token_ability_missing'
  return organization === undefined ? 'no_organization_for_ability' : 'role_ability_missing'
}

/** The policy decision point: no I/O, no clock, no state. Role first, then ability, then resource. */
export function decide(match: RouteMatch, caller: Caller | undefined, roles: Roles): Decision {
  const { route } = match
  if (route.isPublic) return allow(match, undefined)
  if (!caller) return deny('credential_missing')
  const { principal, organization, resource } = caller
  const permissions = effectivePermissions(principal, organization, roles)
  const weighed = { principal, organization, resource, permissions }
  for (const { nameCause, isPassed } of routeChecks)
    if ((isPassed(route, weighed) ?? true) !== true) return deny(nameCause(route, weighed))
  return allow(match, weighed)
}

/** A public agent needs no role. */
export const asksPublicAgent = ({ resource }: Caller): boolean => resource?.agent?.isPublic === true

/** At a public agent those of the credential, whatever the role: a token may do no more than it says (SPEC section 11). */
export const abilitiesInForce = (caller: CallerWithPermissions): AbilitySet =>
  asksPublicAgent(caller) ? caller.permissions.credentialAbilities : caller.permissions.abilities

/**
 * The stored organization decides for every credential of the account: a token that only reads must not choose where one
 * acts that writes (SPEC section 6).
 */
const needsWriting = ({ destination }: Pick<Route, 'destination'>): boolean =>
  destination.kind === 'answer' && destination.name === 'organizations.switch'

/** Another organization's resource does not exist for this one. */
export const ownsResource = ({ organization, resource }: Caller): boolean =>
  organization !== undefined && resource?.agent?.organizationId === organization.id

/** The policy enforcement point. */
export function enforce(decision: Decision): Permit {
  if (decision.isAllowed) return decision.permit
  throw new GatewayError(decision.cause)
}

/** A last guard where a permit leaves the compiler's sight: a forged object is a bug of ours, and goes nowhere. */
export function assertIssued(permit: Permit): void {
  if (!IssuedPermit.isIssued(permit)) throw new GatewayError('internal')
}
