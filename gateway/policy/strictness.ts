import { type GuardedResource, listPathNames, opensPublicAgents, type PdpQuestion, type Route } from './route.ts'

type PlaceOf = (route: Route, param: string) => number | string

const byName: PlaceOf = (_, param) => param

/**
 * Whether each caller who passes `route` may also pass `other`. If the other path has no route for the method, the
 * answer is no.
 */
export function isAtLeastAsStrict(route: Route, other: Route | undefined, placeOf: PlaceOf = byName): boolean {
  if (!other) return false
  if (route === other || other.isPublic) return true
  if (route.isPublic || !isSamePlace(route, other, placeOf)) return false
  const hasRole = !other.role || (route.role !== undefined && route.role.rank >= other.role.rank)
  const hasAbility = other.ability === undefined || other.ability === route.ability
  return hasRole && hasAbility && asksAtLeast(route, other, placeOf)
}

export const isCountedAlike = (route: Route, other: Route | undefined): boolean => {
  const budget = other?.rateLimit
  if (budget === undefined || route === other) return true
  return budget.name === route.rateLimit?.name && budget.by !== 'route'
}

function asksAtLeast(route: Route, other: Route, placeOf: PlaceOf): boolean {
  if (other.questions.length === 0) return true
  const asked = new Set(route.questions.map((question) => nameQuestion(route, question, placeOf)))
  return other.questions.every((question) => asked.has(nameQuestion(other, question, placeOf)))
}

function nameQuestion(route: Route, { pdp, action, about }: PdpQuestion, placeOf: PlaceOf): string {
  const { type, from } = about
  const place = from === 'path' ? placeOf(route, about.param) : from === 'guarded' ? about.level : route.id
  return JSON.stringify([pdp, action, type, from, place])
}

/**
 * Roles are held in an organization, and a public agent requires none. So roles compare only if both routes find their
 * organization and resource in the same way.
 */
const isSamePlace = (route: Route, other: Route, placeOf: PlaceOf): boolean =>
  nameParams(route, [route.organizationParam], placeOf) === nameParams(other, [other.organizationParam], placeOf) &&
  route.hostLabel === other.hostLabel &&
  (opensPublicAgents(other) || !opensPublicAgents(route)) &&
  nameParams(route, listParams(route.resource), placeOf) === nameParams(other, listParams(other.resource), placeOf) &&
  isSameKind(route.resource, other.resource)

const nameParams = (route: Route, params: readonly (string | undefined)[], placeOf: PlaceOf): string =>
  params.map((param) => (param === undefined ? 'none' : `:${placeOf(route, param)}`)).join()

const listParams = (resource: GuardedResource | undefined): readonly string[] =>
  resource ? listPathNames(resource) : []

function isSameKind(guarded: GuardedResource | undefined, other: GuardedResource | undefined): boolean {
  if (guarded?.kind !== other?.kind || guarded?.place.in !== other?.place.in) return false
  if (guarded?.place.in !== 'path' && guarded?.place.name !== other?.place.name) return false
  if (guarded?.kind !== 'object' || other?.kind !== 'object') return true
  return guarded.object === other.object && (other.isPublic || !guarded.isPublic)
}
