import type { Principal } from '../authenticate/principal.ts'
import { GatewayError, type RefusalCode } from '../errors/gateway-error.ts'
import { canWriteSomething, holds, type Roles } from '../policy/role.ts'
import type { Route } from '../policy/route.ts'
import type { Organization } from '../resolve/organization.ts'
import type { Resource } from '../resolve/resource.ts'
import type { RouteMatch } from '../route/table.ts'
import { type Authority, weighAuthority } from './authority.ts'

/** Who asks, and for what: everything that a decision about an authenticated request rests on. */
export type Caller = Readonly<{
  principal: Principal
  organization: Organization | undefined
  resource: Resource | undefined
}>

/** A caller whose authority has been weighed and found enough. */
export type PermittedCaller = Caller & Readonly<{ authority: Authority }>

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

/** The policy decision point: no I/O, no clock, no state. Role first, then ability, then resource. */
export function decide(match: RouteMatch, caller: Caller | undefined, roles: Roles): Decision {
  const { route } = match
  if (route.isPublic) return allow(match, undefined)
  if (!caller) return deny('unauthenticated')
  const { principal, organization, resource } = caller
  const authority = weighAuthority(principal, organization, roles)
  const permitted = { principal, organization, resource, authority }
  const agent = resource?.agent
  if (agent?.isPublic) {
    // A public agent needs no role; what the token itself may do still counts (SPEC section 11).
    const isAble = route.ability === undefined || holds(authority.credentialAbilities, route.ability)
    return isAble ? allow(match, permitted) : deny('ability_missing')
  }
  if (route.role && (authority.role?.rank ?? 0) < route.role.rank) return deny('role_insufficient')
  if (route.ability !== undefined && !holds(authority.abilities, route.ability)) return deny('ability_missing')
  if (needsWriting(route) && principal.proof.kind === 'api-token' && !canWriteSomething(authority.abilities))
    return deny('ability_missing')
  if (route.resource && !isOwned(agent?.organizationId, organization)) return deny('resource_not_found')
  return allow(match, permitted)
}

/**
 * The stored organization decides for every credential of the account: a token that only reads must not choose where one
 * acts that writes (SPEC section 6).
 */
export const needsWriting = ({ destination }: Pick<Route, 'destination'>): boolean =>
  destination.kind === 'answer' && destination.name === 'organizations.switch'

/** Another organization's resource does not exist for this one. */
const isOwned = (owner: number | undefined, organization: Organization | undefined): boolean =>
  owner !== undefined && owner === organization?.id

/** The policy enforcement point. */
export function enforce(decision: Decision): Permit {
  if (decision.isAllowed) return decision.permit
  throw new GatewayError(decision.reason)
}

/** A last guard where a permit leaves the compiler's sight: a forged object is a bug of ours, and goes nowhere. */
export function assertIssued(permit: Permit): void {
  if (!IssuedPermit.isIssued(permit)) throw new GatewayError('internal')
}
