import t from 'tap'
import { diffPolicies } from '../../gateway/analyze/diff/diff.ts'
import { listWidenings } from '../../gateway/analyze/diff/list-widenings.ts'
import { runExpectations } from '../../gateway/analyze/expectations/run-expectations.ts'
import { explain } from '../../gateway/analyze/explain.ts'
import type { HypotheticalCaller } from '../../gateway/analyze/hypothetical-caller.ts'
import { lintPolicy } from '../../gateway/analyze/lint.ts'
import { composeRequests } from '../../gateway/listeners/decision/authzen/evaluate.ts'
import { compileRoutes } from '../../gateway/stages/route/table.ts'
import { parseTable } from '../support/policy-table.ts'

const member = 'require: { role: org-member, ability: things:read }'
const label = 'organization: { hostLabel: slug }'
const wild = 'host: *.app.example'
const policy = parseTable({
  routes: [`/x GET ${wild} ${label} ${member}`, `/x GET host: api.app.example ${member}`, `/y GET ${wild} ${member}`],
})
const caller: HypotheticalCaller = { role: 'org-member', platformRoles: [], tokenAbilities: undefined, agent: 'own' }

t.test('an explanation knows the host, and a label that names no organization', async (t) => {
  const ask = (host: string, more: Partial<HypotheticalCaller> = {}) =>
    explain(policy, { method: 'GET', target: '/x', host, caller: { ...caller, ...more } })
  t.match(ask('acme.app.example'), { outcome: 'allowed', route: 'r0' })
  t.match(ask('api.app.example:8080'), { outcome: 'allowed', route: 'r1' })
  t.match(ask('app.example'), { outcome: 'route_not_found' })
  for (const found of [ask('acme.app.example', { pathOrganization: 'foreign' }), ask('a_b.app.example')]) {
    t.match(found, { status: 403, outcome: 'organization_forbidden', route: 'r0' })
    t.match(found.checks.at(-1), { check: 'organization', isPassed: false })
  }
})

t.test('an expectation is tried at its host', async (t) => {
  const tried = (host: string, organization: 'own' | 'foreign', expect: 'allow' | 'deny', route?: string) => ({
    ...{ host, expect, place: 'x', requests: ['GET /x'], callers: [{ role: 'org-member', organization }] },
    ...(route !== undefined && { route }),
  })
  const results = runExpectations(policy, [
    tried('acme.app.example', 'own', 'allow', 'r0'),
    tried('acme.app.example', 'foreign', 'deny', 'r0'),
    tried('api.app.example', 'own', 'allow', 'r1'),
    tried('app.example', 'own', 'deny'),
  ])
  t.same(
    results.flatMap(({ faults }) => faults),
    [],
  )
})

t.test('a diff tells of a label that no longer decides, and of an exact host that no longer shields', async (t) => {
  const widened = (...[old, fresh]: readonly (readonly string[])[]) =>
    listWidenings(
      diffPolicies({ old: parseTable({ routes: old ?? [] }), new: parseTable({ routes: fresh ?? [] }) }),
    ).map(({ what }) => what)
  t.match(widened([`/x ${wild} ${label} ${member}`], [`/x ${wild} ${member}`]), [/foreign organization/])
  t.same(widened([`/x ${wild} ${member}`], [`/x ${wild} ${label} ${member}`]), [])
  const exact = `/z host: api.app.example ${member}`
  t.match(widened([`/x ${wild} ${member}`, exact], [`/x ${wild} ${member}`]), [/api\.app\.example\/x/])
  t.match(widened([`/x ${member}`], [`/x ${member}`, `/x host: *.example access: public`]), [/\*\.example\/x/])
  t.same(widened([`/x ${wild} ${member}`], [`/x host: *.app.example ${member}`]), [])
})

t.test('a route beside a label that takes the header, and slugs that no label names, get a warning', async (t) => {
  const slugs = ['acme', 'a_b', 'api'].map(
    (slug, id) => [slug, { id, slug, accountType: 'team', source: 'claims' }] as const,
  )
  const organizations = { ...policy.organizations, bySlug: new Map(slugs) }
  const messages = lintPolicy({ ...policy, organizations }).flatMap(({ message }) =>
    /label|named/.test(message) ? message : [],
  )
  t.same(messages, [
    'route "r2" takes the organization from header or cookie, and "r0" from the label of the same host',
    'organization "a_b" is never named by "*.app.example", since its slug is not a lower-case DNS label',
    'organization "api" is never named by "*.app.example", since routes have that very host',
  ])
})

t.test('AuthZEN asks about a path on a host by an absolute URL', async (t) => {
  const routes = { routes: policy.routes, table: compileRoutes(policy.routes) }
  const find = (id: string) =>
    composeRequests({ action: 'GET', resource: { type: 'path', id } }, routes).map(({ match }) => [
      match.route.id,
      match.hostLabel,
    ])
  t.same(find('https://acme.app.example/x?y=1'), [['r0', 'acme']])
  t.same(find('http://API.app.example:81/x'), [['r1', undefined]])
  for (const id of [
    '/x',
    '//acme.app.example/x',
    'https://app.example/x',
    'https:///x',
    'https://a@acme.app.example/x',
  ])
    t.same(find(id), [], id)
})
