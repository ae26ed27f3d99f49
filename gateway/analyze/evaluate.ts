// Questions about a policy that need no running gateway: explain, matrix, diff, lint and tests.

import type { RefusalCode } from '../base/errors/gateway-error.ts'
import type { Roles } from '../policy/role.ts'
import type { Route } from '../policy/route.ts'
import { decide } from '../stages/authorize/decide.ts'
import { findMembership } from '../stages/resolve/organization.ts'
import { createHypotheticalCaller, type HypotheticalCaller, organizationInPath } from './hypothetical-caller.ts'

export function evaluate(route: Route, caller: HypotheticalCaller | undefined, roles: Roles): 'allowed' | RefusalCode {
  if (isForeignOrganization(route, caller)) return 'organization_forbidden'
  const target = { method: 'GET', path: route.path, search: '', segments: [], hasEncodedSlash: false }
  const match = { route, target, params: new Map<string, string>(), rest: undefined, hostLabel: undefined }
  const decision = decide(match, caller && createHypotheticalCaller(caller, route.resource), roles)
  return decision.isAllowed ? 'allowed' : decision.reason
}

/** A route with the organization in its path or host refuses a caller who is not a member before any other check. */
export const isForeignOrganization = (route: Route, caller: HypotheticalCaller | undefined): boolean =>
  (route.organizationParam !== undefined || route.hostLabel !== undefined) &&
  caller !== undefined &&
  !findMembership(createHypotheticalCaller(caller, undefined).principal.user, organizationInPath(caller))
