import t, { type Test } from 'tap'
import { diffPolicies } from '../../gateway/analyze/diff/diff.ts'
import { explain } from '../../gateway/analyze/explain.ts'
import { judgeShadow } from '../../gateway/analyze/shadow/compare.ts'
import { compilePolicy, type Policy } from '../../gateway/policy/compile.ts'
import type { PolicyFileContent, RouteContent } from '../../gateway/policy/file.ts'
import { readTarget } from '../../gateway/stages/receive/target.ts'
import { compileRoutes } from '../../gateway/stages/route/table.ts'
import { runCommand } from '../support/command-line.ts'
import { writeConfiguration } from '../support/gateway.ts'
import { imaginePolicyFile } from '../support/policy-file.ts'

const organizationRoles = ['org-client', 'org-member', 'org-admin', 'org-owner'].map((slug) => ({
  slug,
  name: slug,
  abilities: slug === 'org-member' ? ['things:read'] : [],
}))

const row = (decision: RouteContent['decision'], more: Partial<RouteContent> = {}): RouteContent => ({
  id: 'one',
  match: { methods: ['GET'], path: '/things/:id' },
  surface: 'platform',
  upstream: 'up',
  require: { role: 'org-member', ability: 'things:read' },
  ...(decision && { decision }),
  ...more,
})

const compile = (route: RouteContent, more: PolicyFileContent = {}): Policy =>
  compilePolicy([imaginePolicyFile('p.yaml', { organizationRoles, routes: [route], ...more })], new Set(['up']))

const asking = { pdp: 'p', action: 'read', resource: { type: 'thing', param: 'id' } }

const member = { role: 'org-member', platformRoles: [], tokenAbilities: undefined, agent: 'own' } as const

t.test('a question is compiled from the route and from the kinds that it guards', async (t) => {
  t.same(compile(row(asking)).routes[0]?.questions, [
    { pdp: 'p', action: 'read', about: { type: 'thing', from: 'path', param: 'id' } },
  ])
  t.same(compile(row({ pdp: 'p' })).routes[0]?.questions, [
    { pdp: 'p', action: 'things:read', about: { type: 'route', from: 'route' } },
  ])
  const resources = {
    project: { id: 'text', decision: { pdp: 'q', action: 'enter' } },
    task: { id: 'text', parent: 'project', decision: { pdp: 'p' } },
  } as const
  const guarded = compile(row({ pdp: 'p', action: 'do' }, { resource: { kind: 'task', param: 'id' } }), { resources })
  t.same(guarded.routes[0]?.questions, [
    { pdp: 'p', action: 'do', about: { type: 'task', from: 'guarded', level: 0 } },
    { pdp: 'p', action: 'things:read', about: { type: 'task', from: 'guarded', level: 0 } },
    { pdp: 'q', action: 'enter', about: { type: 'project', from: 'guarded', level: 1 } },
  ])
})

t.test('mistakes in a question are refused', async (t) => {
  for (const [route, message] of [
    [row({ pdp: 'p' }, { require: { role: 'org-member' } }), /asks for no action/],
    [row({ pdp: 'p', resource: { param: 'id' } }), /a parameter and no type/],
    [row({ pdp: 'p', resource: { type: 'thing', param: 'other' } }), /parameter "other" is not in the path/],
    [
      { ...row(asking), access: 'public', require: undefined },
      /a public route has no caller, so it cannot have "decision"/,
    ],
  ] as const)
    t.throws(() => compile(route as RouteContent), { message })
})

const check = (t: Test, settings: object) =>
  runCommand(['policy', 'check', '--config', writeConfiguration(t, { settings: { ...settings }, routes: [shown] })])

const shown = {
  id: 'one',
  match: { path: '/one' },
  surface: 'platform',
  upstream: 'platform',
  decision: { pdp: 'fga', action: 'a' },
}

t.test('policy check refuses a decision point that the configuration lacks', async (t) => {
  const none = await check(t, {})
  t.equal(none.code, 2)
  t.match(
    none.stderr,
    /routes\.yaml:1:1: error: route "one" asks decision point "fga", which is not configured; decisionPoints has none/,
  )
  t.match((await check(t, { decisionPoints: { fgs: { url: 'http://fga' } } })).stderr, /did you mean "fgs"\?/)
  t.equal((await check(t, { decisionPoints: { fga: { url: 'http://fga' } } })).code, 0)
  for (const wrong of [
    { url: 'http://fga?q' },
    { url: 'http://fga', headers: { host: 'h' } },
    { url: 'http://fga', headers: { a: 'b\n' } },
  ])
    t.equal((await check(t, { decisionPoints: { fga: wrong } })).code, 2, JSON.stringify(wrong))
})

t.test('explain names the question and asks no one', async (t) => {
  const request = { method: 'GET', target: '/things/5', host: 'h', caller: member }
  const found = explain(compile(row(asking)), request)
  t.match(found, { outcome: 'allowed', asks: ['p'] })
  t.match(found.checks.at(-1), { check: 'decision', isPassed: true, why: 'not asked here; p: read on thing :id' })
  t.notOk('asks' in explain(compile(row(undefined)), request))
  t.notOk('asks' in explain(compile(row(asking)), { ...request, caller: undefined }))
})

t.test('a question that goes away widens access, and one that comes narrows it', async (t) => {
  const change = (old: RouteContent, fresh: RouteContent) => {
    const { isWidened, routes } = diffPolicies({ old: compile(old), new: compile(fresh) })
    return { isWidened, loses: routes.some(({ losses }) => losses.length > 0) }
  }
  t.same(change(row(asking), row(undefined)), { isWidened: true, loses: false })
  t.same(change(row(undefined), row(asking)), { isWidened: false, loses: true })
  t.same(change(row(asking), row({ ...asking, action: 'see' })), { isWidened: true, loses: true })
  t.same(change(row(asking), row(asking)), { isWidened: false, loses: false })
  const renamed = row(
    { ...asking, resource: { type: 'thing', param: 'other' } },
    { match: { methods: ['GET'], path: '/things/:other' } },
  )
  t.same(change(row(asking), renamed), { isWidened: false, loses: false })
})

t.test('a shadow policy takes the answer to the same questions, and knows no other', async (t) => {
  const live = compileRoutes(compile(row(asking)).routes)
  const judge = (shadow: RouteContent, outcome: 'allowed' | 'decision_refused' | 'ability_missing') => {
    const { routes, roles } = compile(shadow)
    const target = readTarget('GET', '/things/5', 'h')
    const match = live.match(target, 'h')
    const headers = { organizationId: [], cookie: [], passing: [] }
    const organization = { id: 1, slug: 'a', accountType: 'team' } as const
    const user = { id: 1, roles: [{ id: 1, role: 'org-member', organization }], currentOrganizationId: null }
    const principal = { user, credential: { kind: 'oauth', expiresAt: new Date() } }
    const facts = { target, host: 'h', headers, match, principal, resource: undefined } as unknown
    const found = judgeShadow(
      { table: compileRoutes(routes), roles },
      facts as Parameters<typeof judgeShadow>[1], // no more of the user is read
      { route: 'one', outcome },
    )
    return found.outcome
  }
  t.equal(judge(row(asking), 'allowed'), 'allowed')
  t.equal(judge(row(asking), 'decision_refused'), 'decision_refused')
  t.equal(judge(row(asking), 'ability_missing'), 'unknown')
  t.equal(judge(row({ ...asking, action: 'see' }), 'allowed'), 'unknown')
  t.equal(judge(row(undefined), 'decision_refused'), 'allowed')
})
