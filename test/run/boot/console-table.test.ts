import t from 'tap'
import type { ExplainQuestion } from '../../../console/explain.ts'
import { compileConsoleTable } from '../../../gateway/run/boot/console-table.ts'
import { writeTable } from '../../support/policy-table.ts'

const text = writeTable({
  routes: [
    '/things GET require: { role: org-member, ability: things:read }',
    '/things POST require: { role: org-admin, ability: things:write }',
    '/open GET access: public',
  ],
})
const { explain, lines, destinations, choices } = await compileConsoleTable([['table.yaml', text]], new Set(['u']))

const asked: ExplainQuestion = {
  method: 'GET',
  path: '/things?x=1',
  host: 'localhost',
  role: 'org-member',
  platformRole: '',
  credential: 'oauth',
  agent: 'own',
}

t.test('a form’s question is answered as the command line answers it', async (t) => {
  const answers: readonly (readonly [Partial<ExplainQuestion>, object])[] = [
    [{}, { status: 200, outcome: 'allowed', route: 'r0', source: 'table.yaml:11' }],
    [{ role: '' }, { status: 403, outcome: 'role_insufficient' }],
    [{ role: 'org-client' }, { status: 403, outcome: 'role_insufficient' }],
    [{ role: 'org-client', platformRole: 'admin' }, { outcome: 'allowed' }],
    [{ method: 'POST' }, { outcome: 'role_insufficient', route: 'r1' }],
    [{ method: 'POST', role: 'org-admin', credential: 'token:api-key' }, { outcome: 'ability_missing' }],
    [{ method: 'POST', role: 'org-admin', credential: 'token:api-secret' }, { outcome: 'allowed' }],
    [{ credential: 'none' }, { status: 401, outcome: 'unauthenticated' }],
    [
      { credential: 'none', path: '/open' },
      { outcome: 'allowed', route: 'r2' },
    ],
    [{ method: 'PUT' }, { status: 405, outcome: 'method_not_allowed', route: undefined }],
    [{ path: '/nothing' }, { status: 404 }],
    [{ path: '/a/../things' }, { status: 400 }],
    [{ path: 'no path' }, { status: 400 }],
    [{ method: '<b>' }, { route: undefined }],
  ]
  for (const [more, expected] of answers) t.match(explain({ ...asked, ...more }), expected, JSON.stringify(more))
})

t.test('a choice that the form does not offer gets a sentence', async (t) => {
  for (const more of [
    { role: 'nobody' },
    { platformRole: 'nobody' },
    { credential: 'token:nothing' },
    { credential: 'api-key' },
    { agent: 'mine' },
  ])
    t.type(explain({ ...asked, ...more }), 'string', JSON.stringify(more))
})

t.test('places name the file without its folder, and upstreams and choices are the policy’s', async (t) => {
  t.same(
    lines.map(({ source }) => source),
    ['table.yaml:11', 'table.yaml:12', 'table.yaml:13'],
  )
  t.same(
    [...destinations],
    [
      ['r0', 'u'],
      ['r1', 'u'],
      ['r2', 'u'],
    ],
  )
  t.match(choices, { roles: ['org-client', 'org-member', 'org-admin', 'org-owner'], platformRoles: ['admin'] })
})
