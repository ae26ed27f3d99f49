import type { Principal } from '../authenticate/principal.ts'
import { GatewayError, type RefusalCode } from '../errors/gateway-error.ts'
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

export type Decision = Readonly<{ isAllowed: true; permit: Permit } | { isAllowed: false; reason: RefusalCode }>

const allow = (match: RouteMatch, caller: PermittedCaller | undefined): Decision => ({
  isAllowed: true,
  permit: new IssuedPermit(match, caller),
})
const deny = (reason: RefusalCode): Decision => ({ isAllowed: false, reason })

/** A condition of a route. */
export type RouteCheck = Readonly<{
  name: 'role' | 'ability' | 'writing' | 'resource'
  refusal: RefusalCode
  /** Undefined where the route does not ask for it. */
  isPassed: (route: Route, caller: CallerWithPermissions) => boolean | undefined
}>

/** All conditions in the order of their refusals: `decide` refuses by the first that fails, `explain` shows them. */
export const routeChecks: readonly RouteCheck[] = [
  {
    name: 'role',
    refusal: 'role_insufficient',
    isPassed: ({ role }, caller) =>
      role && (asksPublicAgent(caller) || (caller.permissions.role?.rank ?? 0) >= role.rank),
  },
  {
    name: 'ability',
    refusal: 'ability_missing',
    isPassed: ({ ability }, caller) => (ability === undefined ? undefined : holds(abilitiesInForce(caller), ability)),
  },
  {
    name: 'writing',
    refusal: 'ability_missing',
    isPassed: (route, caller) =>
      needsWriting(route) && caller.principal.credential.kind === 'api-token' && !asksPublicAgent(caller)
        ? canWriteSomething(caller.permissions.abilities)
        : undefined,
  },
  {
    name: 'resource',
    refusal: 'resource_not_found',
    isPassed: ({ resource }, caller) => resource && (asksPublicAgent(caller) || ownsResource(caller)),
  },
]

/** The policy decision point: no I/O, no clock, no state. Role first, then ability, then resource. */
export function decide(match: RouteMatch, caller: Caller | undefined, roles: Roles): Decision {
  const { route } = match
  if (route.isPublic) return allow(match, undefined)
  if (!caller) return deny('unauthenticated')
  const { principal, organization, resource } = caller
  const permissions = effectivePermissions(principal, organization, roles)
  const weighed = { principal, organization, resource, permissions }
  for (const { refusal, isPassed } of routeChecks) if ((isPassed(route, weighed) ?? true) !== true) return deny(refusal)
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
  throw new GatewayError(decision.reason)
}

/** A last guard where a permit leaves the compiler's sight: a forged object is a bug of ours, and goes nowhere. */
export function assertIssued(permit: Permit): void {
  if (!IssuedPermit.isIssued(permit)) throw new GatewayError('internal')
}
