import { readFileSync } from 'node:fs'
import t from 'tap'
import { diffPolicies, type PolicyDiff } from '../../../gateway/analyze/diff/diff.ts'
import { parsePolicy } from '../../../gateway/policy/load.ts'

const table = {
  organizationRoles: [
    { slug: 'low', name: 'x', description: 'x', abilities: ['a:read', 'a:write'] },
    { slug: 'high', name: 'x', abilities: ['b:read'] },
    { slug: 'spare', name: 'x', abilities: [] },
    { slug: 'top', name: 'x', abilities: [] },
  ],
  platformRoles: [{ slug: 'admin', name: 'x', description: 'x', bypass: true }],
  tokenScopes: { 'api-key': ['a:read'] },
  meanings: {
    reads: { role: 'low' },
    writes: { role: 'high', abilities: ['a:write'] },
    manages: { role: 'high', abilities: ['a:write'] },
    owns: { role: 'top' },
  },
  organizations: [
    { id: 1, slug: 'acme', accountType: 'team', claims: [{ issuer: 'https://i.example', value: 'acme' }] },
  ],
  rateLimits: {
    calm: { requests: 5, seconds: 60, by: 'principal', onError: 'allow' },
    wild: { requests: 9, seconds: 60 },
  },
  resources: {
    project: { id: 'integer', visibility: true },
    note: { id: 'integer', visibility: true, parent: 'project' },
    thing: {
      id: 'integer',
      owner: true,
      visibility: true,
      privateRole: 'high',
      parent: 'project',
      decision: { pdp: 'p', action: 'see' },
    },
  },
  routes: [
    {
      id: 'one',
      match: { path: '/p/:p/t/:t/u/:u', methods: ['GET'], host: 'h.example' },
      surface: 'model',
      stream: 'chat',
      access: 'authenticated',
      upstream: 'u',
      rewrite: '/r/:p/:t/:u',
      require: { role: 'low', ability: 'a:read' },
      organization: { param: 'u' },
      resource: { kind: 'thing', param: 't', parents: ['p'], public: true },
      decision: { pdp: 'p', action: 'look', resource: { type: 'thing', param: 't' } },
      websocket: false,
      encodedSlashes: 'refuse',
      rateLimit: 'calm',
      limits: { headerBytes: 1_000, targetBytes: 1_000, bodyBytes: 1_000 },
      timeouts: { bodyIdleMs: 9, connectMs: 9, firstByteMs: 9, idleMs: 9, streamIdleMs: 9 },
    },
    { id: 'two', match: { path: '/s/*' }, surface: 'data', upstream: 'v', stripPrefix: '/s', keepAlive: true },
    { id: 'me', match: { path: '/me', methods: ['GET'] }, surface: 'platform', answer: 'users.me' },
    { id: 'c', match: { path: '/c/:c/d/:d/*' }, surface: 'data', cluster: { param: 'c' }, unguarded: { d: 'x' } },
    { id: 'head', match: { path: '/h' }, surface: 'data', upstream: 'u', resource: { kind: 'note', header: 'x-p' } },
    { id: 'query', match: { path: '/q' }, surface: 'data', upstream: 'u', resource: { kind: 'project', query: 'p' } },
    {
      id: 'label',
      match: { path: '/l', host: '*.l.example' },
      surface: 'data',
      upstream: 'u',
      organization: { hostLabel: 'slug' },
    },
  ],
}

type Steps = readonly (string | number)[]

const one: Steps = ['routes', 0]

/** Another value for each key; undefined removes it. */
const changes: Readonly<Record<string, readonly [at: Steps, value: unknown]>> = {
  'organizationRoles.slug': [['organizationRoles', 2, 'slug'], 'other'],
  'organizationRoles.abilities': [
    ['organizationRoles', 0, 'abilities'],
    ['a:read', 'a:write', 'b:read'],
  ],
  'platformRoles.slug': [['platformRoles', 0, 'slug'], 'other'],
  'platformRoles.bypass': [['platformRoles', 0, 'bypass'], false],
  tokenScopes: [['tokenScopes', 'api-key'], ['a:write']],
  'meanings.reads.role': [['meanings', 'reads', 'role'], 'high'],
  'meanings.writes.role': [['meanings', 'writes', 'role'], 'top'],
  'meanings.writes.abilities': [['meanings', 'writes', 'abilities'], ['a:read']],
  'meanings.manages.role': [['meanings', 'manages', 'role'], 'low'],
  'meanings.manages.abilities': [['meanings', 'manages', 'abilities'], ['a:read']],
  'meanings.owns.role': [['meanings', 'owns', 'role'], 'high'],
  'organizations.id': [['organizations', 0, 'id'], 2],
  'organizations.slug': [['organizations', 0, 'slug'], 'other'],
  'organizations.accountType': [['organizations', 0, 'accountType'], 'enterprise'],
  'organizations.claims.issuer': [['organizations', 0, 'claims', 0, 'issuer'], 'https://j.example'],
  'organizations.claims.value': [['organizations', 0, 'claims', 0, 'value'], 'other'],
  'rateLimit.requests': [['rateLimits', 'calm', 'requests'], 6],
  'rateLimit.seconds': [['rateLimits', 'calm', 'seconds'], 61],
  'rateLimit.by': [['rateLimits', 'calm', 'by'], 'address'],
  'rateLimit.onError': [['rateLimits', 'calm', 'onError'], 'deny'],
  'resource.id': [['resources', 'thing', 'id'], 'text'],
  'resource.owner': [['resources', 'thing', 'owner'], false],
  'resource.visibility': [['resources', 'note', 'visibility'], false],
  'resource.privateRole': [['resources', 'thing', 'privateRole'], 'low'],
  'resource.parent': [['resources', 'note', 'parent'], undefined],
  'resource.decision.pdp': [['resources', 'thing', 'decision', 'pdp'], 'q'],
  'resource.decision.action': [['resources', 'thing', 'decision', 'action'], 'other'],
  'route.match.methods': [
    [...one, 'match', 'methods'],
    ['GET', 'POST'],
  ],
  'route.match.path': [['routes', 2, 'match', 'path'], '/you'],
  'route.match.host': [[...one, 'match', 'host'], undefined],
  'route.surface': [['routes', 1, 'surface'], 'platform'],
  'route.stream.kind': [[...one, 'stream'], { kind: 'responses' }],
  'route.stream.end': [[...one, 'stream'], { kind: 'chat', end: 'finishReason' }],
  'route.access': [['routes', 1, 'access'], 'public'],
  'route.upstream': [[...one, 'upstream'], 'w'],
  'route.stripPrefix': [['routes', 1, 'stripPrefix'], undefined],
  'route.rewrite': [[...one, 'rewrite'], '/s/:p/:t/:u'],
  'route.cluster.param': [['routes', 3], { ...table.routes[3], cluster: { param: 'd' }, unguarded: { c: 'x' } }],
  'route.answer': [['routes', 2, 'answer'], 'users.abilities'],
  'route.require.role': [[...one, 'require', 'role'], 'high'],
  'route.require.ability': [[...one, 'require', 'ability'], 'b:read'],
  'route.organization.param': [[...one, 'organization'], undefined],
  'route.organization.hostLabel': [['routes', 6, 'organization'], undefined],
  'route.resource.kind': [['routes', 4, 'resource', 'kind'], 'agent'],
  'route.resource.param': [[...one, 'resource'], { kind: 'thing', param: 'p', parents: ['t'], public: true }],
  'route.resource.header': [['routes', 4, 'resource', 'header'], 'x-q'],
  'route.resource.query': [['routes', 5, 'resource', 'query'], 'q'],
  'route.resource.parents': [[...one, 'resource'], { kind: 'thing', param: 't', public: true }],
  'route.resource.public': [[...one, 'resource', 'public'], false],
  'route.decision.pdp': [[...one, 'decision', 'pdp'], 'q'],
  'route.decision.action': [[...one, 'decision', 'action'], 'other'],
  'route.decision.resource.type': [[...one, 'decision', 'resource', 'type'], 'other'],
  'route.decision.resource.param': [[...one, 'decision', 'resource', 'param'], 'p'],
  'route.websocket': [[...one, 'websocket'], true],
  'route.keepAlive': [['routes', 1, 'keepAlive'], false],
  'route.encodedSlashes': [[...one, 'encodedSlashes'], 'allow'],
  'route.rateLimit': [[...one, 'rateLimit'], 'wild'],
  ...Object.fromEntries(
    ['headerBytes', 'targetBytes', 'bodyBytes'].map((key) => [`route.limits.${key}`, [[...one, 'limits', key], 2_000]]),
  ),
  ...Object.fromEntries(
    ['bodyIdleMs', 'connectMs', 'firstByteMs', 'idleMs', 'streamIdleMs'].map((key) => [
      `route.timeouts.${key}`,
      [[...one, 'timeouts', key], 10],
    ]),
  ),
}

const unreported: Readonly<Record<string, string>> = {
  'organizationRoles.name': 'a text for people',
  'organizationRoles.description': 'a text for people',
  'platformRoles.name': 'a text for people',
  'platformRoles.description': 'a text for people',
  'route.id': 'a name; each question tells it, and is compared',
  'route.unguarded': 'reasons for parameters without a guard',
}

type Schema = Readonly<{
  properties?: Readonly<Record<string, Schema>>
  items?: Schema
  oneOf?: readonly Schema[]
  $defs?: Readonly<Record<string, Schema>>
}>

/** Keys that hold others are told by these. */
const listKeys = ({ properties = {}, items, oneOf = [] }: Schema, under: string): readonly string[] => [
  ...Object.entries(properties).flatMap(([name, schema]) => {
    const key = under === '' ? name : `${under}.${name}`
    const inner = listKeys(schema, key)
    return inner.length > 0 ? inner : [key]
  }),
  ...(items ? listKeys(items, under) : []),
  ...oneOf.flatMap((option) => listKeys(option, under)),
]

const schema: Schema = JSON.parse(
  readFileSync(new URL('../../../policies/policy.schema.json', import.meta.url), 'utf8'),
)
// Their values are definitions, which are listed below under their own names.
const sections = ['rateLimits', 'resources', 'routes']
const keys = [
  ...listKeys(schema, '').filter((key) => !sections.includes(key)),
  ...['rateLimit', 'resource', 'route'].flatMap((name) => listKeys(schema.$defs?.[name] ?? {}, name)),
]

function change(value: unknown, [step, ...rest]: Steps, fresh: unknown): unknown {
  if (step === undefined) return fresh
  const copy: unknown = Array.isArray(value) ? [...value] : { ...Object(value) }
  Reflect.set(Object(copy), step, change(Reflect.get(Object(value), step), rest, fresh))
  return copy
}

const parse = (value: unknown) =>
  parsePolicy('policies', new Map([['a.yaml', JSON.stringify(value, null, 1)]]), new Set(['u', 'v', 'w']))

const isReported = ({ routes, roles, organizations }: PolicyDiff): boolean =>
  routes.length + roles.length + organizations.length > 0

t.test('each key of the policy schema is compared, or stands in a list with its reason', async (t) => {
  t.strictSame([...keys].sort(), [...Object.keys(changes), ...Object.keys(unreported)].sort())
  const old = parse(table)
  for (const [key, [at, value]] of Object.entries(changes)) {
    const diff = diffPolicies({ old, new: parse(change(table, at, value)) })
    t.ok(isReported(diff), key)
  }
})
