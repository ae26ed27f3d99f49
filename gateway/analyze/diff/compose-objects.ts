import type { Route } from '../../policy/route.ts'
import { type HypotheticalObject, objectStates } from '../hypothetical-caller.ts'
import { levelsOf } from './classified-fields.ts'
import type { RoutePair } from './pairs.ts'
import { placeOf, placeOfId } from './place-of.ts'

type ObjectPair = Readonly<{ name: string; old: HypotheticalObject; new: HypotheticalObject }>

type Scene = Readonly<{ name: string; see: (route: Route | undefined) => HypotheticalObject }>

const own: HypotheticalObject = () => 'own'

/**
 * One level of the object differs from the caller's own at a time, since each has to pass on its own. All are foreign
 * and public besides, for callers without an organization. Guards of two kinds, or at two places, name two objects.
 */
export function composeObjects({ old, new: fresh }: RoutePair): readonly ObjectPair[] {
  const [first, second] = [nameObject(old), nameObject(fresh)]
  if (first === undefined || second === undefined || first === second)
    return listScenes([old, fresh]).map(({ name, see }) => ({ name, old: see(old), new: see(fresh) }))
  return listScenes([old]).flatMap((before) =>
    listScenes([fresh]).map((after) => ({
      name: `${before.name}, for which now ${after.name} counts`,
      old: before.see(old),
      new: after.see(fresh),
    })),
  )
}

const nameObject = (route: Route | undefined): string | undefined =>
  route?.resource?.kind === 'object' ? `${route.resource.object.name} ${placeOfId(route)}` : undefined

function listScenes(sides: readonly (Route | undefined)[]): readonly Scene[] {
  const routes = sides.flatMap((route) => route ?? [])
  const levels = new Set(routes.flatMap((route) => levelsOf(route).map(({ name }) => name)))
  if (levels.size === 0) return [{ name: '', see: () => own }]
  const ties = new Set(routes.flatMap(listTies))
  const seen = (name: string, object: HypotheticalObject): Scene => ({ name, see: () => object })
  return [
    seen('own object', own),
    seen('foreign public object', () => 'foreign public'),
    ...[...levels].flatMap((level) =>
      objectStates.slice(1).map((state) => seen(`${state} ${level}`, (name) => (name === level ? state : 'own'))),
    ),
    ...[...ties].map(
      (tie): Scene => ({
        name: `wrong ${tie}`,
        see: (route) => (route && listTies(route).includes(tie) ? 'wrong parent' : own),
      }),
    ),
  ]
}

/** Each parent that the path has to name rightly. */
const listTies = (route: Route): readonly string[] =>
  route.resource?.kind === 'object'
    ? route.resource.parents.map(
        (param, index) => `${levelsOf(route)[index + 1]?.name} in segment ${(placeOf(route, param) ?? 0) + 1}`,
      )
    : []
