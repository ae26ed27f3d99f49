import t from 'tap'
import { diffPolicies } from '../../gateway/analyze/diff/diff.ts'
import { summarizeChange } from '../../gateway/analyze/diff/summarize.ts'
import { parsePolicy } from '../../gateway/policy/load.ts'

const upstreams: ReadonlySet<string> = new Set(['u', 'other'])

const table = `
organizationRoles:
  - { slug: org-client, name: x, abilities: [] }
  - { slug: org-member, name: x, abilities: ['things:read'] }
  - { slug: org-admin, name: x, abilities: ['things:write'] }
  - { slug: org-owner, name: x, abilities: [] }
platformRoles: [{ slug: admin, name: x, bypass: true }]
tokenScopes: { api-key: ['things:read'] }
resources:
  project: { id: integer, visibility: true }
  folder: { id: integer }
  dataset: { id: integer, owner: true, visibility: true, privateRole: org-owner, parent: project }
routes:
  - id: r
    match: { path: '/projects/:project/datasets/:id', methods: [GET] }
    surface: platform
    upstream: u
    require: { role: org-member, ability: 'things:read' }
    resource: { kind: dataset, param: id, parents: [project] }
`

const parse = (text: string) => parsePolicy('policies', new Map([['a.yaml', text]]), upstreams)

const cases: readonly (readonly [name: string, from: string, to: string])[] = [
  ['a lowered privateRole', 'privateRole: org-owner', 'privateRole: org-member'],
  ['a dropped visibility', 'owner: true, visibility: true, privateRole: org-owner', 'owner: true'],
  ['a dropped visibility of the parent', '{ id: integer, visibility: true }', '{ id: integer }'],
  ['another type of ids', 'dataset: { id: integer', 'dataset: { id: text'],
  [
    'a guard of another kind',
    'resource: { kind: dataset, param: id, parents: [project] }',
    'resource: { kind: folder, param: id }',
  ],
  ['dropped parents in the path', ', parents: [project] }', ' }\n    unguarded: { project: nothing hangs on it }'],
  ['another upstream', 'upstream: u', 'upstream: other'],
  ['another path at the upstream', 'upstream: u', "upstream: u\n    rewrite: '/private/:project/:id'"],
]

const switching = `
organizationRoles:
  - { slug: low, name: x, abilities: [] }
  - { slug: high, name: x, abilities: ['a:read', 'b:read', 'c:write'] }
platformRoles: [{ slug: admin, name: x, bypass: true }]
tokenScopes: { api-key: [] }
meanings:
  writes: { role: low, abilities: ['b:read'] }
  manages: { role: high, abilities: ['b:read'] }
  owns: { role: high }
resources:
  folder: { id: integer, visibility: true, privateRole: high }
  project: { id: integer, visibility: true, parent: folder }
routes:
  - id: switch
    match: { path: '/switch/:id', methods: [POST] }
    surface: platform
    answer: organizations.switch
    unguarded: { id: the endpoint looks it up }
    require: { ability: 'c:write' }
  - id: one
    match: { path: '/p/:project/f/:folder', methods: [GET] }
    surface: platform
    upstream: u
    require: { role: low }
    resource: { kind: project, param: project }
    unguarded: { folder: nothing hangs on it }
`

const otherCases: typeof cases = [
  [
    'a switch that asks another ability of tokens that write',
    "require: { ability: 'c:write' }",
    "require: { ability: 'a:read' }",
  ],
  ['a lower role that manages', 'manages: { role: high', 'manages: { role: low'],
  ['a dropped parent', 'visibility: true, parent: folder }', 'visibility: true }'],
  [
    'a kind that gets owners, who see what is private',
    'visibility: true, privateRole: high }',
    'owner: true, visibility: true, privateRole: high }',
  ],
  [
    'guards swapped between two parameters',
    'kind: project, param: project }\n    unguarded: { folder: nothing',
    'kind: folder, param: folder }\n    unguarded: { project: nothing',
  ],
]

const asking = `
organizationRoles:
  - { slug: low, name: x, abilities: ['a:read'] }
meanings:
  writes: { role: low, abilities: ['a:read'] }
  manages: { role: low, abilities: ['a:read'] }
  owns: { role: low }
resources:
  folder: { id: integer, owner: true, decision: { pdp: p, action: browse } }
  note: { id: integer, parent: folder }
routes:
  - id: one
    match: { path: '/f/:folder/n/:note', methods: [GET] }
    surface: platform
    upstream: u
    require: { role: low, ability: 'a:read' }
    resource: { kind: note, param: note, parents: [folder] }
    decision: { pdp: p, action: read }
  - id: two
    match: { path: '/t/:t/:u', methods: [GET] }
    surface: platform
    upstream: u
    require: { role: low, ability: 'a:read' }
    decision: { pdp: p, resource: { type: thing, param: t } }
    unguarded: { u: nothing }
`

const questionCases: typeof cases = [
  ['another decision point', 'decision: { pdp: p, action: read }', 'decision: { pdp: q, action: read }'],
  ['another action', 'action: read', 'action: see'],
  [
    'an action that the route names instead of its ability',
    'decision: { pdp: p, resource',
    'decision: { pdp: p, action: x, resource',
  ],
  ['another type of the resource', 'type: thing', 'type: other'],
  ['another parameter', 'type: thing, param: t', 'type: thing, param: u'],
  ['a dropped question', '    decision: { pdp: p, action: read }\n', ''],
  ['a dropped question of a parent', ', decision: { pdp: p, action: browse }', ''],
  [
    'another decision point of a parent',
    'decision: { pdp: p, action: browse }',
    'decision: { pdp: q, action: browse }',
  ],
  ['another route in the context of a question', 'id: two', 'id: three'],
  ['an owner that questions no longer tell', 'owner: true, ', ''],
  ['a visibility that questions tell anew', 'owner: true, ', 'owner: true, visibility: true, '],
]

for (const [text, listed] of [
  [table, cases],
  [switching, otherCases],
  [asking, questionCases],
] as const)
  for (const [name, from, to] of listed)
    t.test(`the comparison and the hold see ${name}`, async (t) => {
      t.ok(text.includes(from))
      const [old, fresh] = [parse(text), parse(text.replace(from, to))]
      t.ok(diffPolicies({ old, new: fresh }).isWidened, 'the comparison')
      t.not(summarizeChange(old, fresh).widened.length, 0, 'the hold, the log and the console')
    })

t.test('an equal policy holds nothing, nor does a stricter one', async (t) => {
  t.strictSame(summarizeChange(parse(table), parse(table)).widened, [])
  t.strictSame(
    summarizeChange(parse(table.replace('privateRole: org-owner', 'privateRole: org-member')), parse(table)).widened,
    [],
  )
})

t.test('a question of the same content widens nothing, nor does a new one or another limit', async (t) => {
  const limited = `${asking}    rateLimit: calm
rateLimits: { calm: { requests: 1, seconds: 2, onError: deny }, wild: { requests: 9, seconds: 1, by: address } }
`
  const changes: readonly (readonly [text: string, from: string, to: string])[] = [
    [asking, "'/t/:t/:u'", "'/t/:x/:u'"],
    [asking, 'note: { id: integer,', 'note: { id: integer, decision: { pdp: q },'],
    [asking, 'note: { id: integer,', 'note: { id: integer, decision: { pdp: p, action: read },'],
    [limited, 'rateLimit: calm', 'rateLimit: wild'],
    [limited, '    rateLimit: calm\n', ''],
  ]
  for (const [text, from, to] of changes) {
    t.ok(text.includes(from))
    const fresh = text.replace(from, to).replace('param: t }', to.includes(':x') ? 'param: x }' : 'param: t }')
    t.strictSame(summarizeChange(parse(text), parse(fresh)).widened, [], to)
  }
})

t.test('tokens that write are named where only they gain', async (t) => {
  const fresh = parse(switching.replace("require: { ability: 'c:write' }", "require: { ability: 'a:read' }"))
  const [change] = diffPolicies({ old: parse(switching), new: fresh }).routes
  t.ok(change?.gains.some(({ role, credential }) => role === 'admin in low' && credential.includes('a:read, b:read')))
})

const spelled = (routes: string) => `${switching.slice(0, switching.indexOf('routes:'))}routes:${routes}`

const open = (path: string, more = '') => `
  - { id: open, match: { path: '${path}', methods: [GET] }, surface: platform, upstream: u, unguarded: { x: nothing }${more} }`
const strict = (path: string, more = '') => `
  - { id: strict, match: { path: '${path}' }, surface: platform, upstream: u, require: { role: high }${more} }`

const droppedCases: readonly (readonly [name: string, strict: string, open: string])[] = [
  ['an encoded slash', strict('/b/*'), open('/b/:x', ', encodedSlashes: allow')],
  ['an escaped escape', strict('/b/:y/z'), open('/b/:x')],
  ['an escaped end of the path', strict('/b/:y', ', unguarded: { y: nothing }'), open('/b/:x/c')],
  ['capitals', strict('/admin/:y', ', unguarded: { y: nothing }'), open('/Admin/:x')],
  ['a trailing slash', strict('/b'), open('/b/').replace(', unguarded: { x: nothing }', '')],
  [
    'a rewritten path',
    strict('/c/:y/z', ", rewrite: '/b/:y/z', unguarded: { y: nothing }"),
    open('/a/:x', ", rewrite: '/b/:x'"),
  ],
  [
    'another id, though the other asks as much',
    strict('/b/:x/:y/z', ', unguarded: { x: nothing }, resource: { kind: folder, param: y }'),
    open('/b/:x/:y', ', require: { role: high }, resource: { kind: folder, param: y }'),
  ],
]

for (const [name, dropped, kept] of droppedCases)
  t.test(`a dropped route is a widening where another takes its paths by ${name}`, async (t) => {
    const [change, ...others] = summarizeChange(parse(spelled(dropped + kept)), parse(spelled(kept))).widened
    t.match(change, { route: 'open', what: / with other spellings: refused -> may pass, by open$/ })
    t.match(
      others,
      others.map(() => ({ route: 'open' })),
    )
  })

t.test('a dropped route is not a widening where ids are looked up, or the other asks as much', async (t) => {
  const guarded = `
  - { id: guarded, match: { path: '/b/:x', methods: [GET] }, surface: platform, upstream: u, resource: { kind: folder, param: x } }`
  for (const kept of [guarded, open('/b/:x', ', require: { role: high }'), open('/c/:x')])
    t.strictSame(summarizeChange(parse(spelled(strict('/b/*') + kept)), parse(spelled(kept))).widened, [], kept)
})
