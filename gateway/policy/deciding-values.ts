import { isResourceId, listLevels } from './resource-kind.ts'
import { listAskedNames, listPathNames, parsePattern, type Route } from './route.ts'

/** Parameters of the path that name the organization, the guarded resource, or what a decision point is asked about. */
export const listDecidingNames = ({ isPublic, organizationParam, resource, questions }: Route): readonly string[] =>
  isPublic
    ? []
    : [
        ...(organizationParam === undefined ? [] : [organizationParam]),
        ...(resource ? listPathNames(resource) : []),
        ...listAskedNames(questions),
      ]

/**
 * Whether a server that reads one where the gateway reads the other finds the same. An id that is looked up consists of
 * letters, digits and `._~-`, so of all that servers change, only an escape and case can be honest in it.
 */
export const isSameValue = (one: string | undefined, other: string | undefined): boolean =>
  one === other || (one !== undefined && other !== undefined && foldId(one) === foldId(other))

/** Whether the gateway looks the value up and finds nothing, since no id has its form. That is 404, by whatever reading. */
export function isNoId({ organizationParam, resource }: Route, name: string, value: string): boolean {
  if (name === organizationParam) return !isResourceId('integer', value)
  const level = resource ? listPathNames(resource).indexOf(name) : -1
  if (!resource || level < 0) return false
  if (resource.kind === 'agent') return !isResourceId('integer', value)
  // A name of the path is the first of them unless the id is elsewhere.
  const own = listLevels(resource.object)[level + (resource.place.in === 'path' ? 0 : 1)]
  return own !== undefined && !isResourceId(own.idType, value)
}

const foldId = (text: string): string => text.replace(/%[2-7][0-9a-f]/gi, toCharacter).toLowerCase()

const toCharacter = (written: string): string => String.fromCharCode(Number.parseInt(written.slice(1), 16))

/** The segment that a parameter is in a client's path, and in the path that the upstream gets. */
export type ValuePlace = Readonly<{ name: string; here: number; atUpstream: number }>

/** Only parameters that the upstream gets. */
export function listValuePlaces(route: Route, pathAtUpstream: string): readonly ValuePlace[] {
  const names = listDecidingNames(route)
  if (names.length === 0) return []
  const find = (path: string) => {
    const pattern = parsePattern(path)
    return (name: string): number => pattern.findIndex((one) => one.kind === 'param' && one.name === name)
  }
  const [findHere, findAtUpstream] = [find(route.path), find(pathAtUpstream)]
  return names
    .map((name) => ({ name, here: findHere(name), atUpstream: findAtUpstream(name) }))
    .filter(({ atUpstream }) => atUpstream >= 0)
}
