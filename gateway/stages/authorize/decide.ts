// The decision: the caller against the route. Pure, and the one place that makes a permit.

import { codeOf, GatewayError, type RefusalCause, type RefusalCode } from '../../base/errors/gateway-error.ts'
import { listLevels } from '../../policy/resource-kind.ts'
import { type AbilitySet, canWriteSomething, holds, type Roles } from '../../policy/role.ts'
import { opensPublicAgents, type Route } from '../../policy/route.ts'
import type { Principal } from '../authenticate/principal.ts'
import type { Organization } from '../resolve/organization.ts'
import type { Resource } from '../resolve/resource.ts'
import type { RouteMatch } from '../route/table.ts'
import { effectivePermissions, type Permissions } from './permissions.ts'

export type Caller = Readonly<{
  principal: Principal
  organization: Organization | undefined
  resource: Resource | undefined
}>

export type CallerWithPermissions = Caller & Readonly<{ permissions: Permissions }>

export type PermittedCaller = CallerWithPermissions

/** The class is not exported, so that no other file can make an instance, and `#isIssued` tells a look-alike. */
class IssuedPermit {
  // `declare` emits no field definitions, which take V8 far longer than the assignments in the constructor.
  declare readonly match: RouteMatch
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

class OpenDecision {
  declare readonly match: RouteMatch
  declare readonly caller: PermittedCaller
  readonly #isOpened = true

  constructor(match: RouteMatch, caller: PermittedCaller) {
    this.match = match
    this.caller = caller
  }

  static isOpened(value: object): boolean {
    return #isOpened in value && value.#isOpened
  }
}

// Otherwise each instance would give access to its class.
for (const { prototype } of [IssuedPermit, OpenDecision])
  Object.defineProperty(prototype, 'constructor', { value: Object })

/** Proof that the policy allowed this request. Only `decide` makes one; locate, pin and forward require one. */
export type Permit = IssuedPermit

export type Pending = OpenDecision

export type Decision = Readonly<
  | { isAllowed: true; permit: Permit; pending?: undefined }
  | { isAllowed: true; permit: undefined; pending: Pending }
  | { isAllowed: false; reason: RefusalCode; cause: RefusalCause }
>

const allow = (match: RouteMatch, caller: PermittedCaller | undefined): Decision => ({
  isAllowed: true,
  permit: new IssuedPermit(match, caller),
})
const deny = (cause: RefusalCause): Decision => ({ isAllowed: false, reason: codeOf(cause), cause })

export type RouteCheck = Readonly<{
  name: 'role' | 'ability' | 'writing' | 'resource'
  nameCause: (route: Route, caller: CallerWithPermissions) => RefusalCause
  isPassed: (route: Route, caller: CallerWithPermissions) => boolean | undefined
}>

/** In the order of refusals: `decide` refuses by the first check that fails, and `explain` shows all. */
export const routeChecks: readonly RouteCheck[] = [
  {
    name: 'role',
    nameCause: (_, { organization, permissions }) =>
      organization === undefined ? 'no_organization' : permissions.role ? 'role_too_low' : 'role_unknown',
    isPassed: (route, caller) =>
      route.role && (runsPublicAgent(route, caller) || (caller.permissions.role?.rank ?? 0) >= route.role.rank),
  },
  {
    name: 'ability',
    nameCause: ({ ability }, caller) => nameMissingAbility(ability, caller),
    isPassed: (route, caller) =>
      route.ability === undefined ? undefined : holds(abilitiesInForce(route, caller), route.ability),
  },
  {
    name: 'writing',
    nameCause: () => 'token_read_only',
    isPassed: (route, caller) =>
      needsWriting(route) && caller.principal.credential.abilities && !runsPublicAgent(route, caller)
        ? canWriteSomething(caller.permissions.abilities, caller.permissions.meanings)
        : undefined,
  },
  {
    name: 'resource',
    nameCause: nameHiddenResource,
    isPassed: (route, caller) =>
      route.resource && (runsPublicAgent(route, caller) || ownsAgent(caller) || seesObject(route, caller)),
  },
]

function nameMissingAbility(ability: string | undefined, caller: CallerWithPermissions): RefusalCause {
  const { organization, permissions } = caller
  if (ability !== undefined && !holds(permissions.credentialAbilities, ability)) return 'token_ability_missing'
  return organization === undefined ? 'no_organization_for_ability' : 'role_ability_missing'
}

export function decide(match: RouteMatch, caller: Caller | undefined, roles: Roles): Decision {
  const { route } = match
  if (route.isPublic) return allow(match, undefined)
  if (!caller) return deny('credential_missing')
  const { principal, organization, resource } = caller
  const permissions = effectivePermissions(principal, organization, roles)
  const weighed = { principal, organization, resource, permissions }
  for (const { nameCause, isPassed } of routeChecks)
    if ((isPassed(route, weighed) ?? true) !== true) return deny(nameCause(route, weighed))
  if (route.questions.length > 0)
    return { isAllowed: true, permit: undefined, pending: new OpenDecision(match, weighed) }
  return allow(match, weighed)
}

/** Takes the answers in the order of the route's questions. They only narrow: each must be the literal true. */
export function settle(pending: Pending, answers: readonly unknown[]): Decision {
  if (!OpenDecision.isOpened(pending)) throw new GatewayError('internal')
  const { match, caller } = pending
  if (answers.length !== match.route.questions.length) throw new GatewayError('pdp_unusable')
  return answers.every((answer) => answer === true) ? allow(match, caller) : deny('decision_refused')
}

type SeenAgent = Exclude<Extract<Resource, { kind: 'agent' }>['agent'], string>

/** The agent's record, unless another organization has it to itself. */
export const seenAgent = (resource: Resource | undefined): SeenAgent =>
  resource?.kind === 'agent' && typeof resource.agent === 'object' ? resource.agent : undefined

export const runsPublicAgent = (route: Route, { resource }: Caller): boolean =>
  seenAgent(resource)?.isPublic === true && opensPublicAgents(route)

/**
 * Abilities that count for this caller. To run a public agent takes no role, but a token still may do no more than its
 * abilities say (SPEC section 11).
 */
export const abilitiesInForce = (route: Route, caller: CallerWithPermissions): AbilitySet =>
  runsPublicAgent(route, caller) ? caller.permissions.credentialAbilities : caller.permissions.abilities

/**
 * The stored organization counts for every credential of the account. So a read-only token must not change where a
 * writing one acts (SPEC section 6).
 */
const needsWriting = ({ destination }: Pick<Route, 'destination'>): boolean =>
  destination.kind === 'answer' && destination.name === 'organizations.switch'

/** To the caller, another organization's resource does not exist. */
export const ownsAgent = ({ organization, resource }: Caller): boolean =>
  organization !== undefined && seenAgent(resource)?.organizationId === organization.id

export function seesObject({ resource: guarded }: Route, caller: CallerWithPermissions): boolean {
  const { principal, organization, resource, permissions } = caller
  if (guarded?.kind !== 'object' || resource?.kind !== 'object' || typeof resource.record !== 'object') return false
  const { levels } = resource.record
  const kinds = listLevels(guarded.object)
  return (
    levels.length === kinds.length &&
    kinds.every(({ privateRole }, index) => {
      const level = levels[index]
      if (!level) return false
      const { organizationId, ownerId, visibility } = level
      if (organizationId !== organization?.id) return guarded.isPublic && visibility === 'public'
      if (visibility !== 'private') return true
      return (
        ownerId === principal.user.id ||
        (privateRole !== undefined && (permissions.role?.rank ?? 0) >= privateRole.rank)
      )
    })
  )
}

function nameHiddenResource(_: Route, { organization, resource }: CallerWithPermissions): RefusalCause {
  const found = resource?.kind === 'agent' ? resource.agent : resource?.record
  if (!found) return 'resource_unknown'
  if (!organization) return 'no_organization_for_resource'
  const isOwn =
    typeof found === 'object' &&
    'levels' in found &&
    found.levels.every(({ organizationId }) => organizationId === organization.id)
  return isOwn ? 'resource_private' : 'resource_foreign'
}

export function enforce(decision: Decision): Permit {
  if (!decision.isAllowed) throw new GatewayError(decision.cause)
  if (!decision.permit) throw new GatewayError('internal')
  return decision.permit
}

/** A last check before a permit is spent: a forged object is a bug of the gateway, so the request is refused. */
export function assertIssued(permit: Permit): void {
  if (!IssuedPermit.isIssued(permit)) throw new GatewayError('internal')
}
