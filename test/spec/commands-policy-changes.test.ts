import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { runCommand } from '../support/command-line.ts'
import { writeTable } from '../support/policy-table.ts'

const policies = fileURLToPath(new URL('../../policies', import.meta.url))

const run = (...words: string[]) => runCommand(['policy', ...words])

t.test('policy diff ends with 1 for a widening, unless it is allowed, and with 2 for a mistake', async (t) => {
  const table = (role: string) => writeTable({ routes: [`/things GET require: { role: ${role} }`] })
  const folder = t.testdir({
    strict: { 'a.yaml': table('org-owner') },
    loose: { 'a.yaml': table('org-admin') },
    'loose.yaml': table('org-admin'),
    bad: { 'a.yaml': table('org-king') },
  })
  const [strict, loose, bad] = ['strict', 'loose', 'bad'].map((name) => `${folder}/${name}`) as [string, string, string]
  t.match(await run('diff', strict, loose), {
    code: 1,
    stdout: /^Access\n.*\ngains +r0 +GET HEAD +\/things +org-admin +oauth, api-key, api-secret\n$/,
  })
  t.match(await run('diff', strict, loose, '--allow-widening'), { code: 0, stdout: /gains/ })
  t.match(await run('diff', strict, `${loose}.yaml`), { code: 1, stdout: /gains/ })
  t.match(await run('diff', loose, strict, '--format', 'markdown'), {
    code: 0,
    stdout: /\| loses \| r0 \| GET HEAD \|/,
  })
  t.same(await run('diff', loose, loose), { code: 0, stdout: 'the two policies are equivalent\n', stderr: '' })
  t.match(JSON.parse((await run('diff', strict, loose, '--json')).stdout), {
    isWidened: true,
    routes: [{ paths: ['/things'], gains: [{ role: 'org-admin', was: 'role_insufficient' }, {}, {}], losses: [] }],
  })
  t.match(await run('diff', strict, bad), { code: 2, stderr: /bad\/a\.yaml:\d+:\d+: route "r0": role "org-king"/ })
  t.match(await run('diff', strict, `${folder}/gone`), { code: 2, stderr: /cannot be read: ENOENT/ })
  t.match(await run('diff', strict), { code: 2, stderr: /missing required argument 'new'/ })
})

t.test('policy explain tells what another policy says of a request, and what of it changed', async (t) => {
  const table = (role: string, more: string) =>
    writeTable({ routes: [`/things GET require: { role: ${role} }`, `/others GET require: { role: ${more} }`] })
  const folder = t.testdir({
    before: { 'a.yaml': table('org-owner', 'org-owner') },
    after: { 'a.yaml': table('org-admin', 'org-owner') },
    elsewhere: { 'a.yaml': table('org-admin', 'org-member') },
  })
  const [before, after, elsewhere] = [`${folder}/before`, `${folder}/after`, `${folder}/elsewhere`]
  const explain = (against: string, ...words: string[]) =>
    run('explain', 'GET', '/things', '--role', 'org-admin', '-p', after, '--against', against, ...words)
  t.match(await explain(before), {
    code: 0,
    stdout:
      /\nallowed, by route r0 .*\n\nby \S+before:\n[\s\S]*refused: 403 role_insufficient.*\n\nchanged[\s\S]*gains +r0/,
  })
  t.match(await explain(elsewhere), {
    code: 0,
    stdout: /changed from there to here:\nnothing that concerns this request\n$/,
  })
  t.match(JSON.parse((await explain(before, '--json')).stdout), {
    outcome: 'allowed',
    against: { policies: before, outcome: 'role_insufficient', changes: { isWidened: true, routes: [{}] } },
  })
  const loss = JSON.parse((await explain(elsewhere, '--json')).stdout)
  t.match(loss, { against: { outcome: 'allowed', changes: { isWidened: false } } })
  t.same(loss.against.changes.routes, [])
  t.match(await explain(`${folder}/gone`), { code: 2, stderr: /gone.*cannot be read/ })
})

t.test('the shipped policies say what is expected of them', async (t) => {
  t.match(await run('test', '--policies', policies), { code: 0, stdout: /^\d\d passed, 0 failed\n$/ })
})

t.test('policy test ends with 1 where something else comes out, and says where that was expected', async (t) => {
  const folder = t.testdir({
    'a.yaml': writeTable({ routes: ['/things GET require: { role: org-member }'] }),
    'a.test.yaml':
      'tests:\n' +
      '  - { requests: [GET /things], callers: [{ role: org-member }], expect: allow }\n' +
      '  - { name: closed, requests: [GET /things], callers: [{ role: org-admin, scope: api-key }], expect: deny }\n',
  })
  t.match(await run('test', '-p', folder), {
    code: 1,
    stdout:
      /^\S+a\.test\.yaml:3:5: closed: GET \/things by org-admin, token api-key: expected to deny, got 200 allowed by route r0 \(\S+\)\n1 passed, 1 failed\n$/,
  })
  t.match(await run('test', '-p', folder, '--format', 'tap'), {
    code: 1,
    stdout:
      /^TAP version 14\n1\.\.2\nok 1 - .*\nnot ok 2 - closed: .*\n# expected to deny, .*\n# at .*a\.test\.yaml:3:5\n$/,
  })
  t.match(JSON.parse((await run('test', '-p', folder, '--json')).stdout), {
    passed: 1,
    failed: 1,
    trials: [{ faults: [] }, {}],
  })
  t.match(await run('test', '-p', t.testdir({ 'a.yaml': writeTable({ routes: ['/a GET'] }) })), {
    code: 2,
    stderr: /holds no expectations/,
  })
})

t.test('policy coverage ends with 1 for an operation without a route, and a draft has a route for each', async (t) => {
  const guarded = '/own/:id GET require: { role: org-member } resource: { kind: agent, param: id }'
  const folder = t.testdir({
    table: { 'a.yaml': writeTable({ routes: ['/v1/things GET', '/old GET'] }) },
    objects: { 'a.yaml': writeTable({ routes: ['/old/:id GET', guarded] }) },
    'objects.yaml': 'openapi: 3.1.0\npaths:\n  /old/{id}:\n    get: {}\n  /own/{id}:\n    get: {}\n',
    drafted: {},
    'api.yaml':
      'openapi: 3.1.0\nservers: [{ url: https://api.example/v1 }]\npaths:\n  /things:\n    get: {}\n    post: { operationId: makeThing }\n',
  })
  const ask = (...words: string[]) => run(...words, '--openapi', `${folder}/api.yaml`)
  t.match(await ask('coverage', '-p', `${folder}/table`), {
    code: 1,
    stdout:
      /^Operations without a route\nmethod +path +operation +place\nPOST +\/v1\/things +makeThing +\S+api\.yaml:6:11\n\nRoutes without an operation\n.*\nGET +\/old +r1 +\S+a\.yaml:\d+\n\n2 operations, 1 without a route; 1 routes not or not wholly described\n$/,
  })
  t.match(JSON.parse((await ask('coverage', '-p', `${folder}/table`, '--base', '/v1', '--json')).stdout), {
    operations: 2,
    unrouted: [{ method: 'POST', template: '/v1/things' }],
  })
  t.match(await run('coverage', '-p', `${folder}/objects`, '--openapi', `${folder}/objects.yaml`), {
    code: 0,
    stdout:
      /^Operations with a parameter that no resource guards\nmethod +path +operation +route +place\nGET +\/old\/{id} +r0 +\S+objects\.yaml:4:10\n\n2 operations, 0 without a route; 0 routes not or not wholly described; 1 of 2 with parameters guarded\n$/,
  })
  writeFileSync(`${folder}/drafted/api.yaml`, (await ask('init')).stdout)
  t.match(await run('check', '-p', `${folder}/drafted`), {
    code: 0,
    stdout: /^2 routes, 4 roles, no mistakes, 0 warnings\n$/,
  })
  t.match(await ask('coverage', '-p', `${folder}/drafted`, '--strict'), { code: 0 })
  t.match(await run('init', '--openapi', `${folder}/none.yaml`), {
    code: 2,
    stderr: /none\.yaml: cannot be read: ENOENT \(it does not exist\); check the path/,
  })
  t.match(await run('init'), { code: 2, stderr: /--openapi/ })
})
