import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import type { Policy } from '../../gateway/policy/compile.ts'
import { ConfigurationError } from '../../gateway/policy/configuration-error.ts'
import { loadPolicy } from '../../gateway/policy/load.ts'
import { compileRoutes } from '../../gateway/stages/route/table.ts'

type Files = Readonly<Record<string, string>>

const upstreams = new Set(['platform', 'agents', 'files', 'graphql', 'data'])

const roles = `organizationRoles:
  - { slug: org-client, name: Client, abilities: [agents:execute] }
  - { slug: org-member, name: Member, abilities: [datasets:read] }
  - { slug: org-admin, name: Administrator, abilities: [datasets:write] }
  - { slug: org-owner, name: Owner, abilities: [organizations:manage] }
platformRoles:
  - { slug: admin, name: Platform administrator, bypass: true }
tokenScopes:
  api-key: [datasets:read]
`

function load(t: Test, files: Files): Policy {
  return loadPolicy(t.testdir({ ...files }), upstreams)
}

/** Every problem as `file:line:column: sentence`, with the file's name alone. */
function problemsOf(t: Test, files: Files): readonly string[] {
  const directory = t.testdir({ ...files })
  try {
    loadPolicy(directory, upstreams)
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    return error.message.split('\n').map((line) => relative(directory, line))
  }
  return []
}

/** The problems of one file of routes beside sound roles. */
const routeProblems = (t: Test, text: string): readonly string[] =>
  problemsOf(t, { 'roles.yaml': roles, 'routes.yaml': text })

/** A file of one route. */
const row = (fields: string): string => `routes:\n  - { id: a, surface: platform, ${fields} }\n`

const sound = 'match: { path: /a }, upstream: platform'

t.test('the shipped policies load without a problem', async (t) => {
  const { routes } = loadPolicy(fileURLToPath(new URL('../../policies', import.meta.url)), upstreams)
  t.ok(routes.length > 20)
})

t.test('all *.yaml of a directory are one table, in any order and whatever their names', async (t) => {
  const parts = [
    'routes: [{ id: x, match: { path: /x }, surface: data, upstream: data }]',
    'routes: [{ id: y, match: { path: /y }, surface: data, upstream: data, require: { role: org-owner } }]',
  ]
  const [first = '', second = ''] = parts
  const forward = load(t, { 'a.yaml': first, 'b.yaml': second, 'z.yaml': roles })
  const backward = load(t, { 'b.yaml': first, 'a.yaml': second, '0.yaml': roles })
  t.strictSame(forward.routes.map(({ id }) => id).sort(), ['x', 'y'])
  t.strictSame(backward.routes.map(({ id }) => id).sort(), ['x', 'y'])
})

t.test('expectations, hidden files and other formats do not belong to the policy', async (t) => {
  const { routes } = load(t, {
    'roles.yaml': roles,
    'routes.test.yaml': 'routes: nonsense',
    '.routes.yaml': 'routes: nonsense',
    'routes.yaml.bak': 'routes: nonsense',
    'policy.schema.json': '{',
  })
  t.strictSame(routes, [])
})

t.test('a compiled table cannot be changed', async (t) => {
  const policy = load(t, { 'roles.yaml': roles, 'routes.yaml': row(sound) })
  t.ok(Object.isFrozen(policy))
  t.ok(Object.isFrozen(policy.routes))
  t.ok(policy.routes.every(Object.isFrozen))
})

t.test('a route knows its file and line', async (t) => {
  const [route] = load(t, { 'roles.yaml': roles, 'routes.yaml': row(sound) }).routes
  t.match(route?.source, /routes\.yaml:2$/)
})

t.test('a higher role has all abilities of the lower ones, and a scope only its own', async (t) => {
  const { roles: compiled } = load(t, { 'roles.yaml': roles })
  const abilities = [...compiled.organization.values()].map((role) => [role.slug, role.rank, [...role.abilities]])
  t.strictSame(abilities, [
    ['org-client', 1, ['agents:execute']],
    ['org-member', 2, ['agents:execute', 'datasets:read']],
    ['org-admin', 3, ['agents:execute', 'datasets:read', 'datasets:write']],
    ['org-owner', 4, ['agents:execute', 'datasets:read', 'datasets:write', 'organizations:manage']],
  ])
  t.equal(compiled.highest.slug, 'org-owner')
  t.strictSame([...(compiled.tokenScopes.get('api-key') ?? [])], ['datasets:read'])
})

t.test('an empty directory, or one that is not there, is told by name', async (t) => {
  const empty = t.testdir({})
  t.throws(() => loadPolicy(empty, upstreams), {
    name: 'ConfigurationError',
    message: `${empty}: holds no policy: expected at least one *.yaml file`,
  })
  const missing = join(empty, 'missing')
  t.throws(() => loadPolicy(missing, upstreams), {
    name: 'ConfigurationError',
    message: `${missing}: cannot be read: ENOENT (it does not exist); name the folder of policies in policies.directory, or by --policies`,
  })
})

t.test('a policy without organization roles is refused', async (t) => {
  const [problem, ...more] = problemsOf(t, { 'routes.yaml': row(sound) })
  t.match(problem, /: no policy file lists organizationRoles; write them as roles\.yaml of the package does$/)
  t.strictSame(more, [])
})

t.test('empty files have no route, and are not a mistake', async (t) => {
  t.strictSame(problemsOf(t, { 'empty.yaml': '', 'comment.yaml': '# to come\n', 'roles.yaml': roles }), [])
})

t.test('a file that has no keys is refused as a whole', async (t) => {
  for (const text of ['- routes\n', 'routes\n'])
    t.strictSame(problemsOf(t, { 'routes.yaml': text, 'roles.yaml': roles }), [
      'routes.yaml: must be a section of keys and values',
    ])
})

t.test('a file whose ending is another one is named', async (t) => {
  t.strictSame(problemsOf(t, { 'roles.yaml': roles, 'routes.yml': 'routes: []\n' }), [
    'routes.yml: is not read with this ending; name it routes.yaml',
  ])
})

/** The text with `§` before each place that a problem should name, in order, and what it should say there. */
type Mistake = readonly [rule: string, text: string, ...sentences: (string | RegExp)[]]

const mistakes: readonly Mistake[] = [
  [
    'an alias is refused where it stands',
    'routes:\n  - &row { id: a, match: { path: /a }, surface: platform, upstream: platform }\n  - §*row\n',
    'aliases (*row) are not allowed; write the value out',
  ],
  [
    'every alias is told, one without an anchor too',
    'routes:\n  - id: &name a\n    surface: §*name\n    upstream: §*nobody\n',
    'aliases (*name) are not allowed; write the value out',
    'aliases (*nobody) are not allowed; write the value out',
  ],
  ['a duplicate key is refused', 'routes: []\n§routes: []\n', '"routes" stands twice in this section; keep one'],
  [
    'a duplicate key is refused inside a row',
    row('match: { path: /a, §path: /b }, upstream: platform'),
    '"path" stands twice in this section; keep one',
  ],
  ['an unknown tag is refused', 'routes: §!rows []\n', 'Unresolved tag: !rows; quote a text that begins with !'],
  [
    'a second document is refused',
    'routes: []\n§---\nroutes: []\n',
    'begins a second document; keep one, without the line "---"',
  ],
  ['text that is no YAML is refused', 'routes: [\n§', 'a [ before this is not closed; add ]'],
  [
    'a merge key is no YAML 1.2',
    'routes: []\n§<<: {}\n',
    /^the file does not know "<<"; use one of organizationRoles, /,
  ],
  [
    'a misspelt key is refused by its name',
    row(`${sound}, §requires: { role: org-owner }`),
    'routes.0 does not know "requires"; did you mean "require"?',
  ],
  [
    'a key that has another name now is refused by that name',
    'rateLimits:\n  calm: { requests: 1, seconds: 1, §onTrouble: closed }\n',
    'rateLimits.calm does not know "onTrouble"; it is called "onError" now',
  ],
  [
    'an outcome that a limit does not know is refused with the known ones',
    'rateLimits:\n  calm: { requests: 1, seconds: 1, onError: §closed }\n',
    'rateLimits.calm.onError must be one of allow, deny',
  ],
  [
    'a missing key is named',
    'routes:\n  - §{ id: a, surface: platform, upstream: platform }\n',
    'routes.0 lacks "match"; add it',
  ],
  [
    'an unknown surface is refused with the known ones',
    'routes:\n  - id: a\n    match: { path: /a }\n    surface: §html\n    upstream: platform\n',
    'routes.0.surface must be one of platform, data, model, files, graphql',
  ],
  [
    'an unknown method is refused with the known ones',
    row('match: { path: /a, methods: [GET, §TRACE] }, upstream: platform'),
    'routes.0.match.methods.1 must be one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
  ],
  [
    'an unknown role is refused with the known ones',
    row(`${sound}, require: { role: §org-king }`),
    'route "a": role "org-king" is not listed; use one of org-client, org-member, org-admin, org-owner',
  ],
  [
    'a platform role is no role of an organization',
    row(`${sound}, require: { role: §admin }`),
    'route "a": role "admin" is not listed; use one of org-client, org-member, org-admin, org-owner',
  ],
  [
    'an ability that no role grants is refused',
    row(`${sound}, require: { ability: §datasets:erase }`),
    'route "a": no role grants "datasets:erase"; did you mean "datasets:read"?',
  ],
  [
    'an ability that is no name is refused',
    row(`${sound}, require: { ability: §"datasets read" }`),
    'routes.0.require.ability must be a name of letters, digits and . _ : / - such as datasets:read',
  ],
  [
    'a requirement of nothing is refused',
    row(`${sound}, require: §{}`),
    'routes.0.require must have at least one of role, ability',
  ],
  [
    'a kind of stream is refused where streams are not watched',
    row(`${sound}, stream: §chat`),
    'route "a": only routes of the model surface may have "stream", not "platform"',
  ],
  [
    'an end of choices is refused where the stream has none',
    row(`${sound}, stream: { kind: responses, end: §finishReason }`).replace('surface: platform', 'surface: model'),
    'route "a": only chat has choices with a finish_reason; make the kind chat, or remove "end"',
  ],
  [
    'an unknown upstream is refused with the configured ones',
    row('match: { path: /a }, upstream: §plattform'),
    'route "a": upstream "plattform" is not configured; did you mean "platform"?',
  ],
  [
    'an unknown answer is refused with the known ones',
    row('match: { path: /a }, answer: §users.you'),
    /^routes\.0\.answer must be one of users\.me, users\.abilities, /,
  ],
  [
    'two destinations are refused',
    'routes:\n  - §{ id: a, surface: data, match: { path: /a }, upstream: platform, answer: users.me }\n',
    'route "a": must have exactly one of upstream, cluster and answer',
  ],
  [
    'no destination is refused',
    'routes:\n  - §{ id: a, surface: data, match: { path: /a } }\n',
    'route "a": must have exactly one of upstream, cluster and answer',
  ],
  [
    'an organization parameter that is not in the path is refused',
    row('match: { path: /a/:id }, upstream: platform, organization: { param: §org }'),
    'route "a": parameter "org" is not in the path; use one of id',
  ],
  [
    'a resource parameter that is not in the path is refused',
    row('match: { path: /a/:id }, upstream: platform, resource: { kind: agent, param: §agent }'),
    'route "a": parameter "agent" is not in the path; use one of id',
  ],
  [
    'a label that no wildcard frees is refused',
    row('match: { path: /a, host: a.example }, upstream: platform, organization: { hostLabel: §slug }'),
    'route "a": needs a wildcard in "match.host", such as "*.app.example": no label is free',
  ],
  [
    'a label without any host is refused',
    row('match: { path: /a }, upstream: platform, organization: { hostLabel: §slug }'),
    'route "a": needs a wildcard in "match.host", such as "*.app.example": no label is free',
  ],
  [
    'an organization in the path and the host is refused',
    row('match: { path: /:o, host: "*.a.example" }, upstream: platform, organization: §{ param: o, hostLabel: slug }'),
    'route "a": must have exactly one of param and hostLabel',
  ],
  [
    'a wildcard over addresses is refused',
    row('match: { path: /a, host: §"*.0.0.1" }, upstream: platform'),
    'route "a": "*.0.0.1" would be addresses; write a wildcard before a domain name',
  ],
  [
    'a cluster parameter that is not in the path is refused',
    row('match: { path: "/a/:id/*" }, cluster: { param: §clusterId }'),
    'route "a": parameter "clusterId" is not in the path; use one of id, *',
  ],
  [
    'a cluster route without a rest to forward is refused',
    row('match: { path: §/a/:id }, cluster: { param: id }'),
    'route "a": a cluster route must end in /*, the part that it forwards',
  ],
  [
    'a public route that requires something is refused',
    row(`${sound}, access: public, require: §{ role: org-owner }`),
    'route "a": a public route has no caller, so it cannot have "require"',
  ],
  [
    'a public route with an organization or a resource is refused',
    `routes:
  - id: a
    access: public
    surface: data
    upstream: data
    match: { path: /a/:id }
    organization: §{ param: id }
    resource: §{ kind: agent, param: id }
`,
    'route "a": a public route has no caller, so it cannot have "organization"',
    'route "a": a public route has no caller, so it cannot have "resource"',
  ],
  [
    'a public route to a cluster, or to an answer of ours, is refused',
    `routes:
  - { id: a, surface: platform, access: public, match: { path: "/a/:id/*" }, cluster: §{ param: id } }
  - { id: b, surface: platform, access: public, match: { path: /b }, answer: §users.me }
`,
    'route "a": a public route has no caller, so it cannot have "cluster"',
    'route "b": a public route has no caller, so it cannot have "answer"',
  ],
  [
    'limits on the way to an upstream are refused where there is none',
    `routes:
  - { id: a, surface: platform, match: { path: /a }, answer: users.me, timeouts: §{ idleMs: 1 } }
  - { id: b, surface: platform, match: { path: /b }, answer: users.me, limits: { headerBytes: 1, bodyBytes: §1 } }
`,
    'route "a": an endpoint of the gateway has no upstream, so it cannot have "timeouts"',
    'route "b": an endpoint of the gateway has no upstream, so it cannot have "bodyBytes"',
  ],
  [
    'an id taken twice is refused, and the other row named',
    `routes:
  - { id: a, surface: platform, match: { path: /a }, upstream: platform }
  - { id: §a, surface: platform, match: { path: /b }, upstream: platform }
`,
    /^route "a": the id is taken by "a" \(\S*routes\.yaml:2\)$/,
  ],
  [
    'every mistake of a file is told at once',
    `routes:
  - { id: a, surface: platform, match: { path: /a }, upstream: §nowhere, require: { role: §org-king } }
  - { id: b, surface: platform, match: { path: /b }, upstream: platform, require: { ability: §x:y } }
`,
    'route "a": upstream "nowhere" is not configured; use one of platform, agents, files, graphql, data',
    'route "a": role "org-king" is not listed; use one of org-client, org-member, org-admin, org-owner',
    /^route "b": no role grants "x:y"; use one of agents:execute, /,
  ],
]

/** Lines and columns count from 1. */
function placesOf(marked: string): readonly string[] {
  const before = marked.split('§').slice(0, -1)
  return before.map((_, index) => {
    const lines = before
      .slice(0, index + 1)
      .join('')
      .split('\n')
    return `${lines.length}:${(lines.at(-1)?.length ?? 0) + 1}`
  })
}

for (const [rule, marked, ...sentences] of mistakes)
  t.test(rule, async (t) => {
    const problems = routeProblems(t, marked.replaceAll('§', ''))
    const places = placesOf(marked)
    t.equal(problems.length, sentences.length, problems.join('\n'))
    for (const [index, sentence] of sentences.entries()) {
      const [, place, said] = /^routes\.yaml:(\d+:\d+): (.+)$/.exec(problems[index] ?? '') ?? []
      t.equal(place, places[index], 'the place')
      if (typeof sentence === 'string') t.equal(said, sentence)
      else t.match(said, sentence)
    }
  })

const badPaths: readonly (readonly [path: string, sentence: string])[] = [
  ['/a//b', 'a path has no empty segment'],
  ['/*/a', '* is only allowed as the last segment; for one segment write :name'],
  ['/a/**', 'write a literal leading * as %2A'],
  ['/a/*rest', 'write a literal leading * as %2A'],
  ['/a/:', '":" is not a parameter name'],
  ['/a/:1', '":1" is not a parameter name'],
  ['/a/:id.json', '":id.json" is not a parameter name'],
  ['/a/:id(\\d+)', '":id(\\d+)" is not a parameter name'],
  ['/a/:id/:id', '":id" appears twice, so rename one'],
  ['/a?b', 'a path holds no ?, # or backslash'],
  ['/a#b', 'a path holds no ?, # or backslash'],
  ['/a\\b', 'a path holds no ?, # or backslash'],
  ['/100%', 'a path has % only before two hexadecimal digits; write it as %25'],
  ['/%ff', 'a path holds escapes of valid UTF-8 only'],
  ['/a/../b', 'a path has no dot segment; write it without'],
  ['/a/.', 'a path has no dot segment; write it without'],
  ['/%2e%2E', 'a path has no dot segment; write it without'],
  ['/a%2Fb', 'a path holds no encoded slash, backslash or control character'],
  ['/a%5Cb', 'a path holds no encoded slash, backslash or control character'],
  ['/a%00', 'a path holds no encoded slash, backslash or control character'],
]

t.test('a malformed pattern is refused where it stands, with what is wrong', async (t) => {
  for (const [path, sentence] of badPaths)
    t.strictSame(
      routeProblems(t, row(`match: { path: '${path}' }, upstream: platform`)),
      [`routes.yaml:2:48: route "a": ${sentence}`],
      path,
    )
})

t.test('a wildcard is one whole label, and the first', async (t) => {
  for (const host of [
    '*',
    '*.',
    '**.a',
    '*.*.a',
    'a.*',
    'a.*.b',
    'a*.b',
    '*a.b',
    '*.A',
    '*.-a',
    '*.a:80',
    '*.a_b',
    '*..a',
  ])
    t.match(
      routeProblems(t, row(`match: { path: /a, host: '${host}' }, upstream: platform`)),
      [/routes\.0\.match\.host must be a host name in lower case without a port/],
      host,
    )
})

t.test('a pattern starts with a slash', async (t) => {
  const [problem, ...more] = routeProblems(t, row('match: { path: a/b }, upstream: platform'))
  t.match(problem, /^routes\.yaml:2:48: routes\.0\.match\.path must begin with \/, such as \/datasets\/:id$/)
  t.strictSame(more, [])
})

type Tie = readonly [rule: string, first: string, second: string]

const ties: readonly Tie[] = [
  ['the same path', '{ path: /a/:id }', '{ path: /a/:id }'],
  ['parameters that differ in their names', '{ path: /a/:id }', '{ path: /a/:name }'],
  ['a literal in two spellings', '{ path: /a }', '{ path: /%61 }'],
  ['the rest of the same path', '{ path: "/a/*" }', '{ path: "/a/*" }'],
  ['methods that overlap', '{ methods: [GET, POST], path: /a }', '{ methods: [POST, PUT], path: /a }'],
  ['a method of a row that takes all', '{ path: /a }', '{ methods: [PATCH], path: /a }'],
  ['HEAD beside GET, which it follows', '{ methods: [GET], path: /a }', '{ methods: [HEAD], path: /a }'],
  ['the same host', '{ host: h, path: /a }', '{ host: h, path: /a }'],
  ['the same wildcard', '{ host: "*.h", path: /a }', '{ host: "*.h", path: /a }'],
]

for (const [rule, first, second] of ties)
  t.test(`two routes that tie are refused: ${rule}`, async (t) => {
    const rows = [first, second].map(
      (match, index) => `  - { id: r${index}, surface: data, upstream: data, match: ${match} }\n`,
    )
    const problems = routeProblems(t, `routes:\n${rows.join('')}`)
    t.ok(problems.length > 0)
    for (const problem of problems)
      t.match(
        problem,
        /^routes\.yaml:3:53: route "r1": matches the same requests as "r0" \(\S*routes\.yaml:2\); one of them would never be reached$/,
      )
    t.equal(problems.length, 1, 'one tie is one problem, however many methods tie')
  })

t.test('a tie between two files is refused', async (t) => {
  const one = (id: string): string => `routes: [{ id: ${id}, surface: data, upstream: data, match: { path: /a } }]\n`
  const [problem, ...more] = problemsOf(t, { 'roles.yaml': roles, 'one.yaml': one('x'), 'two.yaml': one('y') })
  t.match(problem, /^two\.yaml:1:\d+: route "y": matches the same requests as "x" \(\S*one\.yaml:1\)/)
  t.strictSame(more, [])
})

t.test('routes that share no request do not tie', async (t) => {
  const matches = [
    '{ methods: [GET], path: /a/:id }',
    '{ methods: [POST], path: /a/:name }',
    '{ path: /a/b }',
    '{ path: "/a/*" }',
    '{ path: /a/ }',
    '{ path: /a }',
    '{ path: /A }',
    '{ path: /a, host: h }',
    '{ path: /a, host: i }',
    '{ path: /a, host: "*.i" }',
    '{ path: /a, host: h.i }',
  ]
  const rows = matches.map((match, index) => `  - { id: r${index}, surface: data, upstream: data, match: ${match} }\n`)
  const policy = load(t, { 'roles.yaml': roles, 'routes.yaml': `routes:\n${rows.join('')}` })
  t.equal(policy.routes.length, matches.length)
  t.ok(compileRoutes(policy.routes))
})

t.test('roles stand in one file only', async (t) => {
  const [problem, ...more] = problemsOf(t, { 'a.yaml': roles, 'b.yaml': 'platformRoles: []\n' })
  t.match(problem, /^b\.yaml:1:16: platformRoles are already in \S*a\.yaml; keep them in one file$/)
  t.strictSame(more, [])
})

t.test('a role listed twice is refused', async (t) => {
  const twice = roles.replace('platformRoles:', '  - { slug: org-owner, name: Twice, abilities: [] }\nplatformRoles:')
  t.strictSame(problemsOf(t, { 'roles.yaml': twice }), ['roles.yaml:6:13: role "org-owner" is listed twice; keep one'])
})

t.test('the roles of the specification must stand in their order', async (t) => {
  const must =
    'must list org-client, org-member, org-admin, org-owner in this order, or say in "meanings" which roles write, manage and own'
  const lines = roles.split('\n')
  const swapped = [...lines]
  ;[swapped[2], swapped[3]] = [lines[3] ?? '', lines[2] ?? '']
  const without = lines.filter((line) => !line.includes('org-client'))
  t.strictSame(problemsOf(t, { 'roles.yaml': swapped.join('\n') }), [`roles.yaml:2:3: ${must}`])
  t.strictSame(problemsOf(t, { 'roles.yaml': without.join('\n') }), [`roles.yaml:2:3: ${must}`])
})

t.test('a role of its own may stand between the specified ones', async (t) => {
  const own = roles.replace(
    '  - { slug: org-admin',
    '  - { slug: org-editor, name: Editor, abilities: [] }\n  - { slug: org-admin',
  )
  const { organization } = load(t, { 'roles.yaml': own }).roles
  t.strictSame([...organization.keys()], ['org-client', 'org-member', 'org-editor', 'org-admin', 'org-owner'])
})

t.test('a scope may not hold what no role grants', async (t) => {
  const wide = roles.replace('api-key: [datasets:read]', 'api-key: [datasets:read, x:y]')
  t.strictSame(problemsOf(t, { 'roles.yaml': wide }), [
    'roles.yaml:9:28: no role grants "x:y", so a scope cannot; use one of agents:execute, datasets:read, datasets:write, organizations:manage',
  ])
})

t.test('mistakes of every file are told at once', async (t) => {
  const problems = problemsOf(t, { 'a.yaml': 'routes: !x []\n', 'b.yaml': 'rules: []\n', 'roles.yaml': roles })
  t.strictSame(problems, [
    'a.yaml:1:9: Unresolved tag: !x; quote a text that begins with !',
    'b.yaml:1:1: the file does not know "rules"; use one of organizationRoles, platformRoles, tokenScopes, meanings, organizations, rateLimits, resources, routes',
  ])
})

t.test('a problem never quotes the file, which may hold a secret', async (t) => {
  const problems = routeProblems(t, 'routes: hunter2\nroutes: hunter2\npassword: &x hunter2\n')
  t.ok(problems.length > 0)
  t.notMatch(problems.join('\n'), 'hunter2')
})

t.test('a file that cannot be read is told by name, like any other mistake', async (t) => {
  const directory = t.testdir({ 'roles.yaml': roles, 'routes.yaml': {}, 'gone.yaml': t.fixture('symlink', 'nowhere') })
  t.throws(() => loadPolicy(directory, upstreams), {
    name: 'ConfigurationError',
    message: `${join(directory, 'gone.yaml')}: cannot be read: ENOENT (it does not exist)\n${join(directory, 'routes.yaml')}: cannot be read: not a regular file`,
  })
})

const limits = 'rateLimits: { calm: { requests: 5, seconds: 60 }, wide: { requests: 9, seconds: 1, by: address } }\n'

t.test('a route may name a rate limit of any file, by default by principal and allowing on errors', async (t) => {
  const named = row(`${sound}, rateLimit: calm`)
  const { routes, rateLimits } = load(t, { 'roles.yaml': roles, 'a.yaml': named, 'limits.yaml': limits })
  t.same(routes[0]?.rateLimit, { name: 'calm', requests: 5, seconds: 60, by: 'principal', onError: 'allow' })
  t.same([...rateLimits.keys()], ['calm', 'wide'])
})

t.test('rate limits that are not there, twice there, or could not count are mistakes', async (t) => {
  const without = row(`${sound}, rateLimit: nothing`)
  t.match(routeProblems(t, limits + without), [
    /^routes\.yaml:3:.*rate limit "nothing" is not listed; use one of calm, wide$/,
  ])
  const isPublic = `${sound}, access: public`
  t.match(routeProblems(t, limits + row(`${isPublic}, rateLimit: calm`)), [/cannot be limited by principal$/])
  t.same(routeProblems(t, limits + row(`${isPublic}, rateLimit: wide`)), [])
  const files = { 'roles.yaml': roles, 'a.yaml': limits, 'b.yaml': `${limits}${row(sound)}` }
  t.match(problemsOf(t, files), [
    /^b\.yaml:1:.*"calm" is listed twice; keep one$/,
    /^b\.yaml:1:.*"wide" is listed twice; keep one$/,
  ])
  for (const bad of [
    '{ requests: 0, seconds: 1 }',
    '{ requests: 1, seconds: 0 }',
    '{ requests: 1.5, seconds: 1 }',
    '{ requests: 1 }',
  ])
    t.equal(routeProblems(t, `rateLimits: { x: ${bad} }\n${row(sound)}`).length, 1, bad)
  t.match(routeProblems(t, `rateLimits: { x: { requests: 1, seconds: 1, by: token } }\n${row(sound)}`), [
    /must be one of/,
  ])
  t.equal(routeProblems(t, `rateLimits: { "X y": { requests: 1, seconds: 1 } }\n${row(sound)}`).length > 0, true)
})
