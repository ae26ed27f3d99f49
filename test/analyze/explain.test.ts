import { fileURLToPath } from 'node:url'
import t from 'tap'
import { explain } from '../../gateway/analyze/explain.ts'
import type { HypotheticalCaller } from '../../gateway/analyze/hypothetical-caller.ts'
import { lintPolicy } from '../../gateway/analyze/lint.ts'
import { buildMatrix, listColumns } from '../../gateway/analyze/matrix.ts'
import { loadPolicy } from '../../gateway/policy/load.ts'
import { formatMatrix } from '../../gateway/tools/cli/policy/matrix.ts'
import { parseTable } from '../support/policy-table.ts'

const upstreams = new Set(['platform', 'agents', 'files', 'graphql', 'data'])
const policy = loadPolicy(fileURLToPath(new URL('../../policies', import.meta.url)), upstreams)

const member: HypotheticalCaller = { role: 'org-member', platformRoles: [], tokenAbilities: undefined, agent: 'own' }

const ask = (method: string, target: string, caller: HypotheticalCaller | 'nobody' = member) =>
  explain(policy, { method, target, host: 'h', caller: caller === 'nobody' ? undefined : caller })

t.test('an explanation says for each check whether it was passed, and which route decided', async (t) => {
  const refused = ask('DELETE', '/datasets/5?x')
  t.match(refused, {
    status: 403,
    outcome: 'role_insufficient',
    route: 'datasets.change',
    source: /platform\.yaml:\d+$/,
  })
  t.same(
    refused.checks.map(({ check, isPassed }) => [check, isPassed]),
    [
      ['route', true],
      ['credential', true],
      ['role', false],
    ],
    'what was not reached is no check',
  )
  t.match(refused.checks[2], { why: 'org-admin; held: org-member' })
  t.match(ask('GET', '/datasets/5'), { status: 200, outcome: 'allowed' })
  t.match(ask('GET', '/status', 'nobody'), { status: 200, checks: [{ check: 'route' }, { check: 'public' }] })
})

t.test('a target without a route, and a malformed one, are explained too', async (t) => {
  t.match(ask('GET', '/nothing'), { status: 404, outcome: 'route_not_found', route: undefined })
  t.match(ask('PUT', '/status'), { status: 405, outcome: 'method_not_allowed' })
  t.match(ask('GET', '/public/../x'), { status: 400, outcome: 'target_malformed', checks: [{ check: 'target' }] })
  t.match(ask('GET', '/datasets', 'nobody'), { status: 401, checks: [{}, { check: 'credential', isPassed: false }] })
})

t.test('a bypass scope, a public agent and an organization in the path are told of', async (t) => {
  const admin = { ...member, role: 'org-client', platformRoles: ['admin'] }
  t.match(ask('GET', '/admin/x', admin).checks.at(-1), { isPassed: true, why: /a bypass scope \(admin\) stands in/ })
  const outsider = { ...member, role: undefined }
  t.match(ask('POST', '/agent/3/responses', { ...outsider, agent: 'public' }), { outcome: 'allowed' })
  t.match(ask('POST', '/agent/3/responses', { ...member, agent: 'foreign' }), { outcome: 'resource_not_found' })
  const mint = ask('POST', '/organizations/1/users/2/tokens', outsider)
  t.match(mint, { outcome: 'organization_forbidden' })
  t.ok(mint.checks.some(({ check, isPassed }) => check === 'organization' && !isPassed))
})

t.test('the checks of an explanation and its outcome never contradict each other', async (t) => {
  let compared = 0
  for (const { path, methods } of policy.routes)
    for (const { caller } of listColumns(policy.roles))
      for (const agent of ['own', 'public', 'foreign'] as const) {
        const target = path.replace(/:\w+/g, '1').replace('*', 'x')
        const { outcome, checks } = ask([...methods][0] ?? '', target, caller ? { ...caller, agent } : 'nobody')
        t.equal(
          checks.every(({ isPassed }) => isPassed),
          outcome === 'allowed',
          `${target} ${JSON.stringify(caller)} ${agent}: ${outcome}`,
        )
        compared += 1
      }
  t.ok(compared > 1_000)
})

t.test('the matrix has every route and every kind of caller, in each format', async (t) => {
  const rows = buildMatrix(policy)
  t.equal(rows.length, policy.routes.length)
  t.ok(rows.every(({ cells }) => cells.length === listColumns(policy.roles).length))
  const lineCounts = { table: rows.length + 1, markdown: rows.length + 2, csv: rows.length + 1 }
  for (const [format, lines] of Object.entries(lineCounts))
    t.equal(
      formatMatrix(rows, format as keyof typeof lineCounts)
        .trimEnd()
        .split('\n').length,
      lines,
      format,
    )
  t.same(JSON.parse(formatMatrix(rows, 'json')), rows)
  const odd = [{ route: 'a"b', source: 's', methods: ['GET'], path: '/x,y|z', cells: [] }]
  t.match(formatMatrix(odd, 'csv'), '"a""b",GET,"/x,y|z"')
  t.match(formatMatrix(odd, 'markdown'), '/x,y\\|z')
  const steering = odd.map((row) => ({ ...row, path: '/\u001b[2J\u009b31m\n' }))
  for (const format of ['table', 'markdown', 'json'] as const)
    t.notMatch(formatMatrix(steering, format).replaceAll('\n', ''), /\p{Cc}/u, format)
  t.same(JSON.parse(formatMatrix(steering, 'json')), steering)
})

t.test('rate limits stand in the explanation and the matrix of the routes that name them', async (t) => {
  const limited = parseTable({
    routes: ['/runs POST rateLimit: runs require: { role: org-client, ability: things:run }', '/free'],
    rateLimits: '{ runs: { requests: 30, seconds: 60, by: organization }, idle: { requests: 1, seconds: 1 } }',
  })
  const question = { method: 'POST', target: '/runs', host: 'h' }
  const caller = { role: 'org-client', platformRoles: [], tokenAbilities: undefined, agent: 'own' } as const
  const { checks, outcome } = explain(limited, { ...question, caller })
  t.equal(outcome, 'allowed')
  t.same(checks.at(-1), { check: 'rate limit', isPassed: true, why: 'runs: 30 in 60 s by organization' })
  const refused = explain(limited, { ...question, caller: undefined })
  t.notOk(refused.checks.some(({ check }) => check === 'rate limit'))
  t.equal(refused.outcome, 'unauthenticated')
  t.match(
    formatMatrix(buildMatrix(limited), 'csv'),
    /^route,methods,path,rate limit,[\s\S]*\n[^\n]*"?runs: 30 in 60 s by organization/,
  )
  t.match(formatMatrix(buildMatrix(limited), 'html'), 'runs: 30 in 60 s by organization')
  t.notMatch(formatMatrix(buildMatrix(policy), 'csv'), 'rate limit')
  const messages = lintPolicy(limited).map(({ message }) => message)
  t.ok(messages.includes('no route names the rate limit "idle"'))
  t.notOk(messages.some((message) => message.includes('"runs"')))
})

t.test('the path that the upstream gets stands in the explanation and the matrix', async (t) => {
  const rewritten = parseTable({ routes: ['/p/:x GET rewrite: /a/:x/b require: { role: org-client }', '/free'] })
  const question = { method: 'GET', target: '/p/%41?y', host: 'h', caller: undefined }
  const { upstreamPath, checks } = explain(rewritten, question)
  t.equal(upstreamPath, '/a/%41/b')
  t.match(checks[0], { check: 'route', why: 'GET HEAD /p/:x, x = A; forwarded as /a/%41/b' })
  t.notOk('upstreamPath' in explain(rewritten, { ...question, target: '/free' }))
  t.match(
    formatMatrix(buildMatrix(rewritten), 'csv'),
    /^route,methods,path,upstream path,[\s\S]*,\/p\/:x,\/a\/:x\/b,[\s\S]*,\/free,\/free,/,
  )
  t.match(formatMatrix(buildMatrix(rewritten), 'html'), '<code>/a/:x/b</code>')
  t.notMatch(formatMatrix(buildMatrix(policy), 'csv'), 'upstream path')
  const messages = lintPolicy(rewritten).map(({ message }) => message)
  t.ok(messages.some((message) => /"r0" rewrites its path: a proxy that asks the decision listener/.test(message)))
  t.notOk(messages.some((message) => /"r1" rewrites/.test(message)))
  const warn = (limits: readonly [string, string], by = 'principal'): readonly string[] => {
    const rateLimits = `{ a: { requests: 9, seconds: 1, by: ${by} }, b: { requests: 1, seconds: 1 } }`
    const routes = limits.map((limit, index) => `/v${index}/:x rewrite: /v/:x ${limit}`)
    return lintPolicy(parseTable({ routes, rateLimits })).flatMap(({ message }) =>
      /apart/.test(message) ? message : [],
    )
  }
  for (const limits of [
    ['', 'rateLimit: b'],
    ['rateLimit: a', 'rateLimit: b'],
    ['rateLimit: a', ''],
  ] as const)
    t.match(warn(limits), [/^routes "r1" and "r0" reach \/v\/\w+ at one upstream, and count it apart$/])
  t.equal(warn(['rateLimit: a', 'rateLimit: a'], 'route').length, 1)
  t.same(warn(['rateLimit: a', 'rateLimit: a']), [])
})

t.test('a rule that is seldom intended gets a warning', async (t) => {
  const messages = lintPolicy(policy).map(({ message }) => message)
  t.ok(messages.some((message) => /"status" is public/.test(message)))
  t.ok(messages.some((message) => /"public\.any" requires neither/.test(message)))
  t.ok(messages.some((message) => /"admin\.any" requires a role and no ability/.test(message)))
  t.ok(messages.some((message) => /no route requires the ability "organizations:manage"/.test(message)))
  t.notOk(messages.some((message) => /datasets/.test(message)))
})

t.test('a scope that may mint, but not every scope, gets a warning', async (t) => {
  const warn = (scopes: Readonly<Record<string, readonly string[]>>): readonly string[] => {
    const tokenScopes = new Map(Object.entries(scopes).map(([name, abilities]) => [name, new Set(abilities)]))
    return lintPolicy({ ...policy, roles: { ...policy.roles, tokenScopes } }).flatMap(({ message }) =>
      /tokens of scope/.test(message) ? message : [],
    )
  }
  const key = ['datasets:read']
  t.same(warn({ key, secret: [...key, 'tokens:manage'] }), [])
  t.same(warn({ key, minter: ['tokens:manage'] }), [
    'tokens of scope "minter" pass route "tokens.mint", but mint none of "key": they lack an ability of it',
  ])
})
