import t, { type Test } from 'tap'
import { readExpectations } from '../../../gateway/analyze/expectations/read-expectations.ts'
import { formatTrials, runExpectations } from '../../../gateway/analyze/expectations/run-expectations.ts'
import { loadPolicy } from '../../../gateway/policy/load.ts'
import { parseTable } from '../../support/policy-table.ts'

const policy = parseTable({
  routes: [
    '/things GET require: { role: org-member, ability: things:read }',
    '/open GET access: public',
    '/agent/:id POST require: { role: org-client, ability: agents:execute } resource: { kind: agent, param: id }',
    '/organizations/:id GET organization: { param: id }',
    '/things GET host: api.example require: { role: org-owner }',
    '/p/:x GET rewrite: /a/:x',
  ],
  abilities: {
    'org-client': 'things:run, agents:execute',
    'org-member': 'things:read',
    'org-admin': 'things:write',
    'org-owner': '',
  },
})

/** Reads one expectation, as a flow mapping, from a folder. */
const read = (t: Test, ...lines: readonly string[]) => {
  const text = ['tests:', ...lines.map((line) => `  - { ${line} }`), ''].join('\n')
  return readExpectations(t.testdir({ 'x.test.yaml': text }), policy)
}

const faultsOf = (t: Test, line: string): readonly string[] =>
  runExpectations(policy, read(t, line)).flatMap(({ faults }) => faults)

t.test('an expectation that holds has no faults', async (t) => {
  for (const line of [
    'requests: [GET /things, HEAD /things], callers: [{ role: org-member }, { role: org-owner, scope: api-key }], expect: allow, status: 200, code: allowed, route: r0',
    'requests: [GET /things], callers: [{ role: org-member, abilities: [things:read] }], expect: allow',
    'requests: [GET /things], callers: [{ role: org-client }, { role: org-client, abilities: [] }], expect: deny, status: 403, check: role, code: role_insufficient',
    'requests: [GET /things], callers: [{ role: org-owner, abilities: [] }], expect: deny, check: ability',
    'requests: [GET /things], callers: [{ anonymous: true }], expect: deny, status: 401, code: unauthenticated, route: r0',
    'requests: [GET /open], callers: [{ anonymous: true }, {}], expect: allow',
    'requests: [GET /nothing], callers: [{ role: org-owner }], expect: deny, status: 404',
    'requests: [PUT /things], callers: [{ role: org-owner }], expect: deny, status: 405',
    'requests: [GET /things//x, GET /a/../b], callers: [{ role: org-owner }], expect: deny, status: 400',
    'requests: [POST /agent/1], callers: [{ role: org-owner, agent: foreign }], expect: deny, code: resource_not_found',
    'requests: [POST /agent/1], callers: [{ agent: public }], expect: allow',
    'requests: [GET /organizations/1], callers: [{ role: org-client }], expect: allow',
    'requests: [GET /organizations/1], callers: [{ role: org-owner, organization: foreign }], expect: deny, code: organization_forbidden',
    'requests: [GET /things], host: api.example, callers: [{ role: org-admin }], expect: deny, route: r4',
    'requests: [GET /things], host: api.example, callers: [{ role: org-client, platformRoles: [admin] }], expect: allow',
    'requests: [GET /p/%41?b], callers: [{}], expect: allow, upstreamPath: /a/%41',
    'requests: [GET /open?b], callers: [{}], expect: allow, upstreamPath: /open',
  ])
    t.strictSame(faultsOf(t, line), [], line)
})

t.test('each word of an expectation that does not hold is a fault', async (t) => {
  const begin = 'requests: [GET /things], callers: [{ role: org-client }],'
  for (const [words, fault] of [
    ['expect: allow', /^expected to allow, got 403 role_insufficient by route r0 \(tables\/table\.yaml:\d+\)$/],
    ['expect: deny, status: 401', /^expected status 401, got 403/],
    ['expect: deny, code: ability_missing', /^expected code ability_missing, got 403 role_insufficient/],
    ['expect: deny, check: ability', /^expected check ability, got 403 role_insufficient/],
    ['expect: deny, route: r1', /^expected route r1, got 403 role_insufficient by route r0/],
  ] as const) {
    const faults = faultsOf(t, `${begin} ${words}`)
    t.equal(faults.length, 1, words)
    t.match(faults[0], fault)
  }
})

t.test('another path at the upstream is a fault', async (t) => {
  const [fault] = faultsOf(t, 'requests: [GET /p/1], callers: [{}], expect: allow, upstreamPath: /p/1')
  t.match(fault, /^expected upstream path \/p\/1, got 200 allowed by route r5 \(.*\), forwarded as \/a\/1$/)
})

t.test('callers and routes that do not exist are a mistake of the file, with its place', async (t) => {
  const begin = 'requests: [GET /things]'
  for (const [line, message] of [
    [
      `${begin}, callers: [{ role: king }], expect: deny`,
      /x\.test\.yaml:2:42: there is no role "king"; use one of org-client/,
    ],
    [
      `${begin}, callers: [{ scope: all }], expect: deny`,
      /2:42: there is no scope "all"; use one of api-key, api-secret/,
    ],
    [`${begin}, callers: [{ platformRoles: [x] }], expect: deny`, /there is no platform role "x"; use one of admin/],
    [`${begin}, callers: [{}], expect: deny, route: r9`, /2:68: unknown route "r9"/],
    [`${begin}, callers: [{ anonymous: true, role: org-owner }], expect: deny`, /an anonymous caller holds nothing/],
    [`${begin}, callers: [], expect: deny`, /must list at least one entry/],
    [`${begin}, callers: [{}], expects: deny`, /does not know "expects"/],
    [`requests: [things], callers: [{}], expect: deny`, /must be a method and a path, such as GET/],
  ] as const)
    t.throws(() => read(t, line), { name: 'ConfigurationError', message }, line)
})

t.test('a report is whole in each format, and steers neither terminal nor TAP reader', async (t) => {
  const trials = [
    { name: 'a # TODO \u001b[2J', place: 'f:1:2', faults: [] },
    { name: 'b', place: 'f:3:4', faults: ['expected to deny, got 200'] },
  ]
  t.equal(formatTrials(trials, 'text'), 'f:3:4: b: expected to deny, got 200\n1 passed, 1 failed\n')
  t.equal(
    formatTrials(trials, 'tap'),
    'TAP version 14\n1..2\nok 1 - a \\# TODO ?[2J\nnot ok 2 - b\n# expected to deny, got 200\n# at f:3:4\n',
  )
  t.same(JSON.parse(formatTrials(trials, 'json')), { passed: 1, failed: 1, trials })
})

t.test('expectations do not belong to the policy', async (t) => {
  const folder = t.testdir({ 'roles.test.yaml': 'tests: []\n' })
  t.throws(() => loadPolicy(folder, new Set()), { message: /holds no policy/ })
})
