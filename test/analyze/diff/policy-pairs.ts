import fc from 'fast-check'
import type { Policy } from '../../../gateway/policy/compile.ts'
import { ConfigurationError } from '../../../gateway/policy/configuration-error.ts'
import { parsePolicy } from '../../../gateway/policy/load.ts'

const upstreams: ReadonlySet<string> = new Set(['u', 'v'])

export const abilities = ['x:read', 'x:write', 'y:read'] as const

export const kindNames = ['dataset', 'project', 'folder'] as const

/** Overlapping paths of up to two parameters; `/b/*` takes encoded slashes too. */
const slots = ['/a/:x', '/a/:x/c/:y', '/a/:x/:y', '/a/1', '/b/*', '/b/:x', '/:x/:y'] as const

const mostRoutes = 3

const ladder = fc.constantFrom(
  ['client', 'member', 'admin', 'owner'],
  ['client', 'admin', 'member', 'owner'],
  ['member', 'admin', 'owner'],
  ['client', 'member', 'admin', 'owner', 'chief'],
)
const someAbilities = fc.subarray([...abilities])
// A choice among names that only the compiled policy knows, by its remainder.
const pick = fc.nat(59)
const optional = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined })

const question = fc.record({
  pdp: fc.constantFrom('p', 'q'),
  action: fc.constantFrom('see', 'change'),
  about: fc.constantFrom('guarded', 'path'),
})

const kind = fc.record({
  id: fc.constantFrom('integer', 'bigint', 'text'),
  owner: fc.boolean(),
  visibility: fc.boolean(),
  privateRole: optional(pick),
  parent: fc.boolean(),
  decision: fc.option(question, { nil: undefined, freq: 5 }),
})

const route = fc.record({
  path: fc.constantFrom(...slots),
  methods: fc.constantFrom(['GET'], ['POST'], ['GET', 'POST']),
  host: fc.option(fc.constantFrom('h.example', '*.example'), { nil: undefined, freq: 4 }),
  isPublic: fc.nat(9).map((value) => value === 0),
  role: optional(pick),
  ability: optional(fc.constantFrom(...abilities)),
  organization: fc.nat(4).map((value) => value === 0),
  guard: optional(fc.constantFrom(...kindNames, ...kindNames, 'agent')),
  place: fc.constantFrom('x', 'x', 'y', 'y', 'header', 'query'),
  parents: fc.boolean(),
  opensPublic: fc.boolean(),
  decision: fc.option(question, { nil: undefined, freq: 3 }),
  upstream: fc.constantFrom('u', 'u', 'u', 'v', 'switch'),
  rewrite: fc.constantFrom(undefined, undefined, '/r', '/s'),
  encodedSlashes: fc.constantFrom('refuse', 'allow'),
  websocket: fc.nat(4).map((value) => value === 0),
})

const spec = fc.record({
  ladder,
  granted: fc.tuple(someAbilities, someAbilities, someAbilities, someAbilities),
  bypass: fc.boolean(),
  scope: someAbilities,
  writes: pick,
  writeAbilities: fc.subarray([...abilities], { minLength: 1 }),
  kinds: fc.tuple(kind, kind, kind),
  routes: fc.array(route, { minLength: mostRoutes, maxLength: mostRoutes }),
})

type Spec = Readonly<typeof spec extends fc.Arbitrary<infer Value> ? Value : never>

/** Takes the new value of some fields, each by itself, since a change among many hides behind them. */
function mix(old: unknown, fresh: unknown, dice: Iterator<number>): unknown {
  const isList = Array.isArray(old)
  const canMix = typeof old === 'object' && old !== null && typeof fresh === 'object' && fresh !== null
  // Lists of names are values: half of an order of roles would be none.
  if (!canMix || (isList && typeof old[0] === 'string')) return dice.next().value % 8 === 0 ? fresh : old
  const mixed = Object.entries(old).map(([key, value]) => [key, mix(value, Reflect.get(fresh, key), dice)] as const)
  return isList ? mixed.map(([, value]) => value) : Object.fromEntries(mixed)
}

/** Texts of two policies; a fresh one is mostly the old one with a few fields changed. */
export const policyPairs = fc.tuple(spec, spec, fc.infiniteStream(fc.nat(1_000))).map(([old, fresh, dice]) => {
  return { old: write(old), new: write(mix(old, fresh, dice) as Spec) }
})

/** Undefined for a policy that the compiler refuses. */
export function compileText(text: string): Policy | undefined {
  try {
    return parsePolicy('policies', new Map([['policy.yaml', text]]), upstreams)
  } catch (error) {
    if (error instanceof ConfigurationError) return undefined
    throw error
  }
}

const choose = <Value>(values: readonly Value[], at: number): Value | undefined => values[at % values.length]

function write({ ladder: roles, granted, bypass, scope, writes, writeAbilities, kinds, routes }: Spec): string {
  const names = roles.slice(0, -1)
  const policy = {
    organizationRoles: roles.map((slug, index) => ({
      slug,
      name: slug,
      // The highest has all, as an ability that no role grants is refused.
      abilities: index === roles.length - 1 ? abilities : (granted[index] ?? []),
    })),
    platformRoles: [{ slug: 'platform', name: 'x', bypass }],
    tokenScopes: { 'api-key': scope },
    meanings: {
      reads: { role: names[0] },
      writes: { role: choose(names, writes), abilities: writeAbilities },
      manages: { role: choose(names, writes), abilities: writeAbilities },
      owns: { role: roles.at(-1) },
    },
    resources: Object.fromEntries(kindNames.map((name, index) => [name, writeKind(kinds, index, roles)])),
    routes: distinct(routes).map((row, index) => writeRoute(row, index, roles, kinds)),
  }
  return JSON.stringify(policy, null, 1)
}

/** A dataset lies in a project, and a project in a folder. */
function writeKind(kinds: Spec['kinds'], index: number, roles: readonly string[]) {
  const { id, owner, visibility, privateRole, parent, decision } = kinds[index] ?? kinds[0]
  return {
    id,
    owner,
    visibility,
    ...(visibility && privateRole !== undefined && { privateRole: choose(roles, privateRole) }),
    ...(parent && index < kindNames.length - 1 && { parent: kindNames[index + 1] }),
    ...(decision && { decision: { pdp: decision.pdp, action: decision.action } }),
  }
}

/** Two routes that match the same requests would be refused. */
function distinct(routes: Spec['routes']): Spec['routes'] {
  const shapes = new Set<string>()
  return routes.filter(({ path, host }) => {
    const shape = `${path} ${host}`
    return !shapes.has(shape) && shapes.add(shape)
  })
}

function writeRoute(row: Spec['routes'][number], index: number, roles: readonly string[], kinds: Spec['kinds']) {
  const params = [...row.path.matchAll(/:(\w)/g)].map(([, name]) => name ?? '')
  const resource = row.isPublic ? undefined : writeGuard(row, params, kinds)
  const organization =
    row.organization && !row.isPublic ? params.find((name) => !resource?.names.includes(name)) : undefined
  const free = params.filter((name) => name !== organization && !resource?.names.includes(name))
  const answer = row.upstream === 'switch' && !row.isPublic
  return {
    id: `r${index}`,
    match: { path: row.path, methods: row.methods, ...(row.host && { host: row.host }) },
    surface: 'platform',
    ...(answer ? { answer: 'organizations.switch' } : { upstream: row.upstream === 'v' ? 'v' : 'u' }),
    ...(row.rewrite &&
      !answer && {
        rewrite: `${row.rewrite}${index}${params.map((name) => `/:${name}`).join('')}${row.path.endsWith('*') ? '/*' : ''}`,
      }),
    ...(row.isPublic ? { access: 'public' } : writeRules(row, roles)),
    ...(organization && { organization: { param: organization } }),
    ...(resource && { resource: resource.rule }),
    ...(free.length > 0 && { unguarded: Object.fromEntries(free.map((name) => [name, 'it names nothing'])) }),
    ...(row.decision && !row.isPublic && { decision: writeQuestion(row.decision, params) }),
    encodedSlashes: row.encodedSlashes,
    ...(row.websocket && !answer && { websocket: true }),
  }
}

function writeRules({ role, ability }: Spec['routes'][number], roles: readonly string[]) {
  const rules = { ...(role !== undefined && { role: choose(roles, role) }), ...(ability && { ability }) }
  return Object.keys(rules).length > 0 ? { require: rules } : {}
}

function writeGuard(
  { guard, place, parents, opensPublic }: Spec['routes'][number],
  params: readonly string[],
  kinds: Spec['kinds'],
) {
  if (guard === undefined) return undefined
  const at = guard === 'agent' ? -1 : kindNames.indexOf(guard)
  const levels = guard === 'agent' ? 0 : countLevels(kinds, at)
  const param = place === 'header' || place === 'query' ? undefined : params.includes(place) ? place : params.at(-1)
  if (param === undefined && place.length === 1) return undefined
  const others = params.filter((name) => name !== param)
  const named = parents ? others.slice(0, levels - 1) : []
  const isOpen = opensPublic && levels > 0 && kinds.slice(at, at + levels).every(({ visibility }) => visibility)
  return {
    names: [...named, ...(param === undefined ? [] : [param])],
    rule: {
      kind: guard,
      ...(param === undefined ? { [place]: 'thing' } : { param }),
      ...(named.length > 0 && { parents: named }),
      ...(isOpen && { public: true }),
    },
  }
}

const countLevels = (kinds: Spec['kinds'], at: number): number =>
  kinds[at]?.parent && at < kindNames.length - 1 ? 1 + countLevels(kinds, at + 1) : 1

const writeQuestion = (
  { pdp, action, about }: NonNullable<Spec['routes'][number]['decision']>,
  params: readonly string[],
) => ({
  pdp,
  action,
  ...(about === 'path' && params[0] !== undefined && { resource: { type: 'thing', param: params[0] } }),
})
