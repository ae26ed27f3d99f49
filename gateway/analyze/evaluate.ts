import { decide } from '../authorize/decide.ts'
import type { RefusalCode } from '../errors/gateway-error.ts'
import type { Roles } from '../policy/role.ts'
import type { Route } from '../policy/route.ts'
import { type Imagined, imagineCaller } from './hypothetical-caller.ts'

/** What somebody would get at a route. Nobody at all where `caller` is undefined. */
export function judge(route: Route, caller: Imagined | undefined, roles: Roles): 'allowed' | RefusalCode {
  if (isOutside(route, caller)) return 'organization_forbidden'
  const target = { method: 'GET', path: route.path, search: '', segments: [], hasEncodedSlash: false }
  const match = { route, target, params: new Map<string, string>(), rest: undefined }
  const decision = decide(match, caller && imagineCaller(caller, route.resource), roles)
  return decision.isAllowed ? 'allowed' : decision.reason
}

/** A route that takes its organization from the path refuses who is no member of it, before anything is weighed. */
export const isOutside = (route: Route, caller: Imagined | undefined): boolean =>
  route.organizationParam !== undefined &&
  caller !== undefined &&
  (caller.role === undefined || caller.pathOrganization === 'foreign')
