import type { Route } from '../policy/route.ts'

/** Whether whoever passes the one may pass the other as well. Without a row nobody may. */
export function guardCovers(route: Route, other: Route | undefined): boolean {
  if (!other) return false
  if (route === other || other.isPublic) return true
  if (route.isPublic || !isSamePlace(route, other)) return false
  const hasRole = !other.role || (route.role !== undefined && route.role.rank >= other.role.rank)
  return hasRole && (other.ability === undefined || other.ability === route.ability)
}

/** Roles are held in an organization, and a public agent needs none: they compare only where both are found alike. */
const isSamePlace = (route: Route, other: Route): boolean =>
  route.organizationParam === other.organizationParam &&
  route.resource?.kind === other.resource?.kind &&
  route.resource?.param === other.resource?.param
