import type { Policy } from '../../policy/compile.ts'
import type { DeclaredOrganizations } from '../../policy/organizations.ts'
import type { RateLimit } from '../../policy/rate-limit.ts'
import { listLevels, type ResourceKind } from '../../policy/resource-kind.ts'
import type { Meanings, Roles } from '../../policy/role.ts'
import type { PdpQuestion, Route } from '../../policy/route.ts'
import { placeOf, placeOfId } from './place-of.ts'

/** Whether a change of the field may admit a request or lead it elsewhere; a string says what finds that, or why none can. */
type Field<Owner> = Readonly<
  | { callers: string }
  | { neutral: string }
  | { table: string }
  | { widens: (old: Owner, fresh: Owner) => boolean; facts: readonly string[] }
>

/** A new field does not compile until it stands in its table, so that a comparison can't overlook it. */
type Classified<Owner> = Readonly<Record<keyof Owner, Field<Owner>>>

const always = (): boolean => true

export const policyFields = {
  routes: { table: 'routeFields' },
  roles: { table: 'roleFields' },
  organizations: { table: 'organizationFields' },
  rateLimits: { neutral: 'each route holds its own, and one that no route names counts nothing' },
  resources: { neutral: 'each route holds the kinds that it guards' },
} as const satisfies Classified<Policy>

type PolicyFields = typeof policyFields

/** A part of a policy that is not neutral does not compile until the comparison has it. */
export type ComparedPart = {
  [Name in keyof PolicyFields]: PolicyFields[Name] extends { neutral: string } ? never : Name
}[keyof PolicyFields]

export const routeFields: Classified<Route> = {
  id: { neutral: 'a name; each question tells it, and is compared' },
  source: { neutral: 'the place in a file' },
  host: { callers: 'regions of requests' },
  path: { callers: 'regions of requests' },
  methods: { callers: 'each method' },
  surface: { neutral: 'the form of errors' },
  stream: { neutral: 'the form of errors within a stream, and its good end' },
  isPublic: { callers: 'the anonymous caller' },
  // The other backend, path or endpoint trusts the permit of this one.
  destination: { widens: always, facts: ['destination'] },
  rewrite: { widens: always, facts: ['upstreamPath'] },
  role: { callers: 'each role' },
  ability: { callers: 'each credential' },
  organizationParam: { callers: 'a foreign organization in the path' },
  hostLabel: { callers: 'a foreign organization in the host' },
  resource: { widens: hasOtherIds, facts: ['ids'] },
  unguarded: { neutral: 'reasons for parameters without a guard' },
  questions: { table: 'questionFields' },
  // Frames pass unjudged once the handshake is through.
  isWebSocket: { widens: (old, fresh) => fresh.isWebSocket && !old.isWebSocket, facts: ['websocket'] },
  isKeptAlive: { neutral: 'comments within a stream' },
  // Paths that were refused reach the backend.
  takesEncodedSlashes: {
    widens: (old, fresh) => fresh.takesEncodedSlashes && !old.takesEncodedSlashes,
    facts: ['encodedSlashes'],
  },
  rateLimit: {
    widens: ({ rateLimit: old }, { rateLimit: fresh }) =>
      old !== undefined && fresh !== undefined && listWidened(limitFields, old, fresh).length > 0,
    facts: ['rateLimit'],
  },
  bodyLimitBytes: { neutral: 'how much, not who' },
  headLimits: { neutral: 'how much, not who' },
  timeouts: { neutral: 'how long, not who' },
}

export const kindFields: Classified<ResourceKind> = {
  name: { callers: 'objects of each kind' },
  fingerprint: { neutral: 'made of the other fields' },
  // One text may name another object, or one where it named none.
  idType: { widens: (old, fresh) => old.idType !== fresh.idType, facts: ['ids'] },
  hasOwner: { callers: 'private objects of the caller' },
  hasVisibility: { callers: 'private objects, and foreign public ones' },
  privateRole: { callers: 'private objects of others, with each role' },
  parent: { callers: 'each level, and wrong parents' },
  decision: { neutral: 'the questions of routes hold it' },
}

/** A question as its route asks it. */
export type AskedQuestion = PdpQuestion & Readonly<{ by: Route }>

/** Another question may get a yes where this one gets a no, so a caller gains by any change, and by a dropped one. */
export const questionFields: Classified<AskedQuestion> = {
  pdp: { widens: (old, fresh) => old.pdp !== fresh.pdp, facts: ['decision point'] },
  action: { widens: (old, fresh) => old.action !== fresh.action, facts: ['action'] },
  about: { widens: (old, fresh) => describeAbout(old) !== describeAbout(fresh), facts: ['resource'] },
  // Its id is told as the context of each question.
  by: { widens: (old, fresh) => old.by.id !== fresh.by.id, facts: ['route'] },
}

/** A parameter by its place, since its name may change without effect; a guarded level with the facts that are told. */
function describeAbout({ about, by }: AskedQuestion): string {
  if (about.from === 'path') return JSON.stringify({ ...about, param: placeOf(by, about.param) })
  if (about.from !== 'guarded') return JSON.stringify(about)
  const level = levelsOf(by)[about.level]
  return JSON.stringify([about, placeOfId(by), level?.hasOwner, level?.hasVisibility])
}

/** A gain is a right, so a limit that is raised, dropped or counted otherwise is a change and not a widening. */
export const limitFields: Classified<RateLimit> = {
  name: { neutral: 'a name; requests are counted anew under another' },
  requests: { neutral: 'how often, not who' },
  seconds: { neutral: 'how often, not who' },
  by: { neutral: 'with whom a caller shares a budget, not who may' },
  onError: { neutral: 'whether permitted requests wait for Redis, not who may' },
}

/** Levels are compared by name: a level that only one policy has is a matter of imagined callers. */
function hasOtherIds(old: Route, fresh: Route): boolean {
  const known = levelsOf(old)
  return levelsOf(fresh).some((kind) => {
    const before = known.find(({ name }) => name === kind.name)
    return before !== undefined && listWidened(kindFields, before, kind).length > 0
  })
}

export const levelsOf = ({ resource }: Route): readonly ResourceKind[] =>
  resource?.kind === 'object' ? listLevels(resource.object) : []

// A changed answer of `users.me` and a command's usual role decide no request.
const described = { neutral: 'said by `users.me` and commands, read by no decision' }

export const meaningFields: Classified<Meanings> = {
  executes: described,
  reads: described,
  writes: described,
  // Ranks of two policies have no common scale, so another role may be a lower one.
  manages: { widens: always, facts: ['role that manages'] },
  owns: described,
  writeAbilities: { widens: always, facts: ['abilities that write'] },
  manageAbilities: described,
}

export const roleFields: Classified<Roles> = {
  organization: { callers: 'each role with its abilities' },
  highest: { callers: 'bypass scopes' },
  platform: { callers: 'bypass scopes' },
  tokenScopes: { callers: 'tokens minted anew' },
  meanings: {
    widens: (old, fresh) => listWidened(meaningFields, old.meanings, fresh.meanings).length > 0,
    facts: ['role that manages', 'abilities that write'],
  },
}

/** Their rules are the same: all but a removal may widen, since a caller of claims gains a membership. */
export const organizationFields: Classified<DeclaredOrganizations> = {
  byId: { neutral: 'the same organizations as by slug' },
  bySlug: { widens: always, facts: ['organization'] },
  byClaim: { widens: always, facts: ['value'] },
}

/** Names of the facts that differ in a way that may admit a request, or lead it elsewhere. */
export const listWidened = <Owner>(fields: Classified<Owner>, old: Owner, fresh: Owner): readonly string[] =>
  (Object.values(fields) as readonly Field<Owner>[]).flatMap((field) =>
    'widens' in field && field.widens(old, fresh) ? field.facts : [],
  )
