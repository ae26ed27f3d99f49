import type { HypotheticalCaller } from '../hypothetical-caller.ts'
import { composeObjects } from './compose-objects.ts'
import { listCredentials } from './list-credentials.ts'
import type { PolicyPair, RoutePair } from './pairs.ts'
import { type FoundPlace, placeOf, placeOfId } from './place-of.ts'

/** One kind of caller under each policy. Undefined is a caller without a credential; `absent` cannot exist yet. */
export type ComparedCaller = Readonly<{
  role: string
  credential: string
  relation: string
  old: HypotheticalCaller | 'absent' | undefined
  new: HypotheticalCaller | undefined
}>

/**
 * Every kind of caller that one of two routes could treat differently. A decision depends on the role in the
 * organization in force, a bypass scope and the route's ability. It also depends on membership in the organization that
 * the path or host names, and on the agent or object. Each of these varies if one of the routes reads it.
 */
export function composeCallers(policies: PolicyPair, routes: RoutePair): readonly ComparedCaller[] {
  const relations = listRelations(routes)
  const holders = listHolders(policies)
  return [
    { role: 'anonymous', credential: 'none', relation: '', old: undefined, new: undefined },
    ...listCredentials(policies, routes).flatMap(({ credential, old, new: fresh }) =>
      holders.flatMap(({ name, role, platformRoles }) =>
        relations.map(
          (relation): ComparedCaller => ({
            role: name,
            credential,
            relation: relation.name,
            old: old === 'absent' ? old : { role, platformRoles, tokenAbilities: old, ...relation.old },
            new: { role, platformRoles, tokenAbilities: fresh, ...relation.new },
          }),
        ),
      ),
    ),
  ]
}

/** A bypass scope is paired with the lowest role, where its effect shows most. */
function listHolders(policies: PolicyPair) {
  const both = [policies.old.roles, policies.new.roles]
  const roles = new Set(both.flatMap(({ organization }) => [...organization.keys()]))
  const lowest = new Set(both.flatMap(({ organization }) => [...organization.keys()][0] ?? []))
  const bypasses = new Set(
    both.flatMap(({ platform }) => [...platform.values()].flatMap((role) => (role.isBypassScope ? role.slug : []))),
  )
  return [
    { name: 'no organization', role: undefined, platformRoles: [] },
    ...[...roles].map((role) => ({ name: role, role, platformRoles: [] })),
    ...[...bypasses].flatMap((slug) =>
      [...lowest].map((role) => ({ name: `${slug} in ${role}`, role, platformRoles: [slug] })),
    ),
  ]
}

type Ownership = Pick<HypotheticalCaller, 'agent' | 'object' | 'pathOrganization'>

type Relation = Readonly<{ name: string; old: Ownership; new: Ownership }>

function listRelations(routes: RoutePair): readonly Relation[] {
  const sides = [routes.old, routes.new]
  const agents = sides.map((route) => (route?.resource?.kind === 'agent' ? placeOfId(route) : undefined))
  const organizations = sides.map(placeOfOrganization)
  const objects = composeObjects(routes)
  return combine(agents, ['own', 'public', 'foreign'] as const).flatMap((agent) =>
    combine(organizations, ['own', 'foreign'] as const).flatMap((organization) =>
      objects.map((object): Relation => {
        const tie = (side: 0 | 1): Ownership => ({
          agent: agent.get(agents[side]) ?? 'own',
          pathOrganization: organization.get(organizations[side]) ?? 'own',
          object: side === 0 ? object.old : object.new,
        })
        const ties = [...nameTies(agent, 'agent'), ...nameTies(organization, 'organization'), object.name]
        return { name: ties.filter((text) => text !== '').join(', '), old: tie(0), new: tie(1) }
      }),
    ),
  )
}

const placeOfOrganization = (route: RoutePair['old']): FoundPlace =>
  route?.hostLabel === undefined ? placeOf(route, route?.organizationParam) : 'the host'

function combine<Value>(
  places: readonly FoundPlace[],
  values: readonly Value[],
): readonly ReadonlyMap<FoundPlace, Value>[] {
  const distinct = [...new Set(places)].filter((place) => place !== undefined).sort()
  return distinct.reduce<readonly ReadonlyMap<FoundPlace, Value>[]>(
    (ways, place) => ways.flatMap((way) => values.map((value) => new Map([...way, [place, value]]))),
    [new Map()],
  )
}

const nameTies = (values: ReadonlyMap<FoundPlace, string>, kind: string): readonly string[] =>
  [...values].map(([place, value]) => `${value} ${kind}${values.size > 1 ? ` in ${namePlace(place)}` : ''}`)

const namePlace = (place: FoundPlace): string => (typeof place === 'string' ? place : `segment ${(place ?? 0) + 1}`)
