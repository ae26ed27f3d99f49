import t from 'tap'
import { lintPolicy } from '../../gateway/analyze/lint.ts'
import { parsePolicy } from '../../gateway/policy/load.ts'
import { isResourceId } from '../../gateway/policy/resource-kind.ts'
import { parseTable } from '../support/policy-table.ts'

const roles = `organizationRoles:
${['org-client', 'org-member', 'org-admin', 'org-owner'].map((slug) => `  - { slug: ${slug}, name: x, abilities: [] }`).join('\n')}
`
const route = (resource: string, methods = 'GET'): string =>
  `{ id: r, match: { methods: [${methods}], path: '/a/:a/b/:b' }, surface: platform, upstream: up, resource: ${resource} }`

const compile = (kinds: readonly string[], resource = '{ kind: one, param: a }', methods?: string) =>
  parsePolicy(
    'policies',
    new Map([
      [
        'table.yaml',
        `${roles}resources:\n${kinds.map((kind) => `  ${kind}\n`).join('')}routes: [${route(resource, methods)}]\n`,
      ],
    ]),
    new Set(['up']),
  )

t.test('mistakes of kinds and of routes that guard them are told', async (t) => {
  const one = 'one: { id: integer }'
  const wrong: readonly (readonly [kinds: readonly string[], resource: string | undefined, said: RegExp])[] = [
    [['agent: { id: integer }', one], undefined, /agents are a kind of the gateway/],
    [['path: { id: integer }', one], undefined, /questions about a path have this type/],
    [['One: { id: integer }', one], undefined, /lower-case letters, digits and underscores/],
    [['one: { id: number }'], undefined, /integer/],
    [['one: { id: integer, parent: two }'], undefined, /the parent "two" is not listed/],
    [
      ['one: { id: integer, parent: two }', 'two: { id: integer, parent: one }'],
      undefined,
      /its own ancestor \(one in two in one\)/,
    ],
    [['one: { id: integer, visibility: true, privateRole: org-boss }'], undefined, /role "org-boss" is not listed/],
    [['one: { id: integer, privateRole: org-admin }'], undefined, /nothing is private without "visibility"/],
    [
      [
        'one: { id: integer, parent: b }',
        'b: { id: uuid, parent: c }',
        'c: { id: text, parent: d }',
        'd: { id: text, parent: e }',
        'e: { id: text }',
      ],
      undefined,
      /more than 3 ancestors/,
    ],
    [[one], '{ kind: two, param: a }', /kind "two" is not listed in resources/],
    [[one], '{ kind: one, param: x }', /parameter "x" is not in the path/],
    [[one], '{ kind: one, param: a, parents: [b] }', /has 0 ancestors/],
    [[one], '{ kind: one }', /must have exactly one of param, header and query/],
    [[one], '{ kind: one, param: a, header: x-one }', /must have exactly one of param, header and query/],
    [[one], '{ kind: one, header: X-One }', /must be the name of a header in lower case/],
    [[one], '{ kind: one, query: "one[]" }', /must be the name of a query parameter/],
    [[one], '{ kind: one, query: a }', /"a" is a parameter of the path too/],
    [[one], '{ kind: one, param: a }, unguarded: { c: Nothing to guard. }', /parameter "c" is not in the path/],
    [[one], '{ kind: one, param: a }, unguarded: { b: "" }', /must not be empty/],
    [[one], '{ kind: one, param: a }, unguarded: { a: Nothing to guard. }', /"a" names a resource already/],
    [[one, 'two: { id: text, parent: one }'], '{ kind: two, param: a, parents: [a] }', /names a parameter twice/],
    [[one], '{ kind: one, param: a, public: true }', /nothing of kind "one" is public/],
    [[one], '{ kind: agent, param: a, public: true }', /a public agent is told by the directory/],
    [[one], '{ kind: agent, param: a, parents: [b] }', /an agent has no parents/],
  ]
  for (const [kinds, resource, said] of wrong) t.throws(() => compile(kinds, resource), { message: said }, `${said}`)
  t.equal(compile([one, 'two: { id: text, parent: one }'], '{ kind: two, param: b, parents: [a] }').resources.size, 2)
})

t.test('public resources beside a method that changes state are warned of', async (t) => {
  const warn = (methods: string) =>
    lintPolicy(
      compile(['one: { id: integer, visibility: true }'], '{ kind: one, param: a, public: true }', methods),
    ).filter(({ message }) => /changes state/.test(message)).length
  t.equal(warn('GET'), 0)
  t.equal(warn('GET, PUT'), 1)
})

t.test('a path parameter that no resource guards is warned of, unless a reason is given', async (t) => {
  const two = ['one: { id: integer }', 'two: { id: text, parent: one }']
  const warn = (kinds: readonly string[], resource: string) =>
    lintPolicy(compile(kinds, resource)).flatMap(
      ({ message }) => /^route "r" (?:takes|never)(.*)$/.exec(message)?.[1] ?? [],
    )
  const unjudged = 'no resource guards it, so its backend alone judges whose it is'
  t.same(warn(two, '{ kind: one, param: a }'), [` :b from the path: ${unjudged}`])
  t.same(warn(two, '{ kind: two, param: b }'), [
    ' :a from the path: "parents" of its resource leaves it out, so another ancestor passes',
  ])
  t.same(warn(two, '{ kind: two, param: b, parents: [a] }'), [])
  t.same(warn(two, '{ kind: one, query: c }').length, 2)
  t.same(warn(two, '{ kind: one, param: a }, unguarded: { b: It is a page number. }'), [])
  t.same(warn(two, '{ kind: one, param: a }, organization: { param: b }'), [])
  t.same(warn(two, '{ kind: two, header: x-two, parents: [a] }, organization: { param: b }'), [])
  for (const name of ['x-organization-id', 'x-forwarded-id', 'x-real-ip', 'cookie'])
    t.match(warn(two, `{ kind: two, header: ${name}, parents: [a] }, organization: { param: b }`), [
      /all its responses are 404/,
    ])
})

t.test('wildcards are warned of too, and neither public routes nor clusters are', async (t) => {
  const warn = (route: string) =>
    lintPolicy(parseTable({ routes: [route] })).filter(({ message }) => /from the path/.test(message)).length
  t.equal(warn('/files/* GET require: { role: org-member }'), 1)
  t.equal(warn('/files/:id/* GET require: { role: org-member }'), 2)
  t.equal(warn('/files/* GET access: public'), 0)
  t.equal(warn('/files GET require: { role: org-member }'), 0)
  t.equal(warn('/files/* GET unguarded: { "*": "Names of public pages." }'), 0)
})

t.test('an id has one spelling', async (t) => {
  t.ok(isResourceId('integer', '2147483647'))
  t.notOk(isResourceId('integer', '2147483648'))
  t.ok(isResourceId('bigint', '9223372036854775807'))
  t.notOk(isResourceId('bigint', '9223372036854775808'))
  for (const text of ['', '0', '01', '+1', '-1', '1 ', '1.0', '1e3', '١']) t.notOk(isResourceId('bigint', text), text)
  const uuid = '5a11f0e7-0000-4000-8000-000000000001'
  t.ok(isResourceId('uuid', uuid))
  for (const text of [uuid.toUpperCase(), uuid.replaceAll('-', ''), `{${uuid}}`])
    t.notOk(isResourceId('uuid', text), text)
  t.ok(isResourceId('text', 'A.b_c~d-9'))
  for (const text of ['', 'a b', 'é', 'a'.repeat(129), 'a\n']) t.notOk(isResourceId('text', text), text)
})
