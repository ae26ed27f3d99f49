import t from 'tap'
import { createHypotheticalCaller } from '../../../gateway/analyze/hypothetical-caller.ts'
import {
  compareVerdicts,
  type Facts,
  judgeShadow,
  type ShadowTable,
  type Verdict,
} from '../../../gateway/analyze/shadow/compare.ts'
import { readTarget } from '../../../gateway/stages/receive/target.ts'
import type { Resource } from '../../../gateway/stages/resolve/resource.ts'
import { compileRoutes } from '../../../gateway/stages/route/table.ts'
import { parseTable } from '../../support/policy-table.ts'

const abilities = {
  'org-client': 'things:run, agents:execute',
  'org-member': 'things:read',
  'org-admin': 'things:write',
  'org-owner': '',
}

const tableOf = (...routes: readonly string[]): ShadowTable => {
  const policy = parseTable({ routes, abilities })
  return { table: compileRoutes(policy.routes), roles: policy.roles }
}

type Asked = Readonly<{
  role?: string
  token?: readonly string[]
  anonymous?: boolean
  organizationId?: string
  resource?: Resource
}>

/** The facts of the live stages, had they come as far as they can. */
function gather(live: ShadowTable, path: string, { role, token, anonymous, organizationId, resource }: Asked): Facts {
  const target = readTarget('POST', path, 'h')
  const { principal } = createHypotheticalCaller(
    { role, platformRoles: [], tokenAbilities: token, agent: 'own' },
    undefined,
  )
  let match: Facts['match']
  try {
    match = live.table.match(target, 'h')
  } catch {
    match = undefined
  }
  return {
    target,
    host: 'h',
    headers: { organizationId: organizationId === undefined ? [] : [organizationId], cookie: [], passing: [] },
    match,
    principal: anonymous || !match || match.route.isPublic ? undefined : principal,
    resource,
  }
}

const differ = (live: Verdict['outcome'], liveRow: string, shadowRow: string, path: string, asked: Asked = {}) => {
  const table = tableOf(liveRow)
  const facts = gather(table, path, asked)
  const verdict = { route: facts.match?.route.id, outcome: live }
  return compareVerdicts(verdict, judgeShadow(tableOf(shadowRow), facts, verdict))
}

const member = { role: 'org-member' }
const owners = '/a POST require: { role: org-owner }'
const members = '/a POST require: { role: org-member }'

t.test('a second table gains and loses for the very caller of the request', async (t) => {
  t.equal(differ('role_insufficient', owners, members, '/a', member), 'gained')
  t.equal(differ('allowed', members, owners, '/a', member), 'lost')
  t.equal(differ('allowed', members, members, '/a', member), undefined)
  t.equal(differ('allowed', members, '/a GET', '/a', member), 'lost')
  t.equal(
    differ('allowed', members, '/a POST require: { ability: things:write }', '/a', { ...member, token: [] }),
    'lost',
  )
  t.equal(differ('unauthenticated', members, '/a POST access: public', '/a', { anonymous: true }), 'gained')
})

t.test('another route, and another refusal, are differences of their own', async (t) => {
  const live = tableOf(members)
  const facts = gather(live, '/a', member)
  const two = tableOf('/b POST', '/a POST')
  t.match(judgeShadow(two, facts, { route: 'r0', outcome: 'allowed' }), { route: 'r1', outcome: 'allowed' })
  t.equal(compareVerdicts({ route: 'r0', outcome: 'allowed' }, { route: 'r1', outcome: 'allowed' }), 'other_route')
  t.equal(
    differ('role_insufficient', owners, '/a POST require: { ability: things:write }', '/a', member),
    'other_refusal',
  )
  t.equal(differ('role_insufficient', owners, '/b POST', '/a', member), 'other_refusal')
  t.equal(differ('unauthenticated', members, owners, '/a', { anonymous: true }), undefined)
  t.equal(differ('ambiguous_credentials', members, owners, '/a', { anonymous: true }), undefined)
})

t.test('another path at the upstream is a difference', async (t) => {
  const [here, there] = ['/p/:x POST rewrite: /a/:x', '/p/:x POST rewrite: /b/:x']
  const live = tableOf(here)
  const facts = gather(live, '/p/%41', member)
  const verdict = { route: 'r0', outcome: 'allowed', upstreamPath: '/a/%41' } as const
  t.equal(compareVerdicts(verdict, judgeShadow(tableOf(here), facts, verdict)), undefined)
  t.equal(compareVerdicts(verdict, judgeShadow(tableOf(there), facts, verdict)), 'other_path')
  t.equal(compareVerdicts(verdict, judgeShadow(tableOf('/p/:x POST'), facts, verdict)), 'other_path')
})

t.test('an organization in the path is found among the memberships that are known', async (t) => {
  const inPath = '/o/:id POST organization: { param: id }'
  t.equal(differ('allowed', '/o/:id POST', inPath, '/o/1', member), undefined)
  t.equal(differ('allowed', '/o/:id POST', inPath, '/o/2', member), 'lost')
  t.equal(differ('invalid_organization_id', members, '/a POST', '/a', { ...member, organizationId: 'x' }), undefined)
  t.equal(differ('organization_forbidden', inPath, '/o/:id POST', '/o/2', member), 'gained')
})

t.test('an agent counts where the live table looked the same one up', async (t) => {
  const guarded = (param: string) =>
    `/g/:a/:b POST require: { ability: agents:execute } resource: { kind: agent, param: ${param} }`
  const asked = (isPublic: boolean) => ({
    ...member,
    resource: { kind: 'agent', agent: { id: 1, organizationId: 9, isPublic } } as const,
  })
  t.equal(differ('resource_not_found', guarded('a'), guarded('a'), '/g/1/2', asked(false)), undefined)
  t.equal(
    differ(
      'allowed',
      guarded('a'),
      '/g/:x/:y POST require: { ability: agents:execute } resource: { kind: agent, param: x }',
      '/g/1/2',
      asked(true),
    ),
    undefined,
  )
  t.equal(differ('allowed', guarded('a'), guarded('b'), '/g/1/2', asked(true)), 'unknown')
  t.equal(differ('allowed', guarded('a'), guarded('a'), '/g/1/2?b=1', asked(true)), undefined)
  t.equal(differ('allowed', guarded('b'), guarded('a'), '/g/1/1?a=1', asked(true)), 'lost')
  t.equal(differ('target_misreadable', guarded('a'), guarded('a'), '/g/1/2?a=1', member), undefined)
  const byQuery = '/g/:a/:b POST require: { ability: agents:execute } resource: { kind: agent, query: id }'
  t.equal(differ('allowed', guarded('a'), byQuery, '/g/1/2?id=1', asked(true)), undefined)
  t.equal(differ('allowed', guarded('a'), byQuery, '/g/1/2?id=2', asked(true)), 'unknown')
  t.equal(differ('allowed', guarded('a'), guarded('b'), '/g/1/1', asked(true)), undefined)
  t.equal(differ('allowed', '/g/:a/:b POST', guarded('b'), '/g/1/2', member), 'unknown')
})

t.test('a caller whom the live policy never asked for is unknown, and nothing is guessed', async (t) => {
  t.equal(differ('route_not_found', '/b POST', members, '/a', member), 'unknown')
  t.equal(differ('route_not_found', '/b POST', '/a POST access: public', '/a'), 'gained')
  t.equal(differ('route_not_found', '/b POST', '/c POST', '/a'), undefined)
  t.equal(differ('allowed', '/a POST access: public', members, '/a'), 'unknown')
})
