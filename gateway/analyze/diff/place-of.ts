import { parsePattern, type Route } from '../../policy/route.ts'

/** An index among a path's segments, or a header or parameter by name. */
export type FoundPlace = number | string | undefined

export const placeOf = (route: Route | undefined, param: string | undefined): number | undefined =>
  route && param !== undefined
    ? parsePattern(route.path).findIndex((segment) => segment.kind === 'param' && segment.name === param)
    : undefined

export function placeOfId(route: Route | undefined): FoundPlace {
  const place = route?.resource?.place
  return place?.in === 'path' ? placeOf(route, place.name) : place && `${place.in} ${place.name}`
}
