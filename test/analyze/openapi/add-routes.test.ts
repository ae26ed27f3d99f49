import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { draftAdditions, draftRoleTable, draftTable } from '../../../gateway/analyze/openapi/draft.ts'
import { readOperations } from '../../../gateway/analyze/openapi/read-operations.ts'
import { loadPolicy, parsePolicy } from '../../../gateway/policy/load.ts'
import { runCommand } from '../../support/command-line.ts'

const file = fileURLToPath(new URL('petstore.yaml', import.meta.url))
const petstore = readFileSync(file, 'utf8')
const upstreams = new Set(['platform'])
const read = (text = petstore) => readOperations('api.yaml', text, undefined)
const parse = (texts: Readonly<Record<string, string>>) =>
  parsePolicy('drafts', new Map(Object.entries(texts)), upstreams)

const adminApi = JSON.stringify({
  openapi: '3.1.0',
  paths: {
    '/users': { get: {}, post: {}, delete: {}, options: {} },
    '/admin/users': { get: {}, delete: {} },
    '/users/{id}/admin/keys': { post: {} },
  },
})

t.test('of three roles the lowest reads, the middle writes, and the highest deletes and administers', async (t) => {
  const policy = parse({ 'api.yaml': draftRoleTable(read(adminApi), 'platform', ['viewer', 'editor', 'owner']) })
  t.strictSame(
    policy.routes
      .map(({ methods, path, role, ability }) => `${[...methods][0]} ${path} ${role?.slug} ${ability}`)
      .sort(),
    [
      'DELETE /admin/users owner admin:delete',
      'DELETE /users owner users:delete',
      'GET /admin/users owner admin:read',
      'GET /users viewer users:read',
      'OPTIONS /users viewer users:read',
      'POST /users editor users:write',
      'POST /users/:id/admin/keys owner admin:write',
    ],
  )
  const { reads, writes, manages, owns, writeAbilities } = policy.roles.meanings
  t.strictSame(
    [reads, writes, manages, owns].map(({ slug }) => slug),
    ['viewer', 'editor', 'owner', 'owner'],
  )
  t.strictSame([...(writeAbilities ?? [])], ['admin:write', 'users:write'])
  t.equal(policy.roles.tokenScopes.size, 0)
})

t.test('any number of roles gives a policy that loads, with a real description and an empty one', async (t) => {
  for (const roles of [['a'], ['a', 'b'], ['a', 'b', 'c', 'd', 'e'], ['null', 'TRUE', 'x.y:'], ['org-client', 'Owner']])
    for (const text of [petstore, '{"openapi":"3.1.0","paths":{}}']) {
      const policy = parse({ 'api.yaml': draftRoleTable(read(text), 'platform', roles) })
      t.strictSame([...policy.roles.organization.keys()], roles)
      t.equal(policy.routes.length, read(text).length)
      const used = new Set(policy.routes.map(({ role }) => role?.slug))
      if (roles.length === 2 && text === petstore) t.strictSame([...used].sort(), [...roles].sort())
    }
})

t.test('only what is missing is added, and a second time nothing', async (t) => {
  const operations = read()
  const some = draftTable(operations.slice(0, 8), 'platform')
  const before = parse({ 'api.yaml': some })
  const added = draftAdditions(operations, before, 'platform', undefined)
  t.equal(added.routes, operations.length - 8)
  const after = parse({ 'api.yaml': some, 'more.yaml': ['routes:', ...added.lines].join('\n') })
  t.strictSame(
    after.routes.filter(({ source }) => !source.includes('more')).map(({ id }) => id),
    before.routes.map(({ id }) => id),
  )
  t.ok(after.routes.every(({ role, isPublic }) => role?.slug === 'org-owner' && !isPublic))
  t.strictSame(draftAdditions(operations, after, 'platform', undefined), { lines: [], routes: 0, byHand: [] })
})

t.test('an added route requires an ability that its role has, else the highest role alone', async (t) => {
  const [operations, roles] = [read(), ['viewer', 'editor', 'owner']]
  const half = draftRoleTable(
    operations.filter(({ method }) => method === 'GET'),
    'platform',
    roles,
  )
  const policy = parse({ 'api.yaml': half })
  const { lines } = draftAdditions(operations, policy, 'platform', roles)
  const added = parse({ 'api.yaml': half, 'more.yaml': ['routes:', ...lines].join('\n') })
  const writing = added.routes.filter(({ source }) => source.includes('more'))
  t.ok(writing.length > 5 && writing.every(({ role, ability }) => role?.slug === 'owner' && ability === undefined))
  const whole = draftRoleTable(operations, 'platform', roles).split(/^ {2}- id: deletePet\n/m)[0] ?? ''
  const granted = draftAdditions(operations, parse({ 'api.yaml': whole }), 'platform', roles)
  t.match(granted.lines.join('\n'), /id: deletePet\n[\s\S]*?require: \{ role: owner, ability: pet:delete \}/)
})

t.test('ids of the policy are not used again, and what no pattern takes is told apart', async (t) => {
  const text = JSON.stringify({
    openapi: '3.1.0',
    paths: {
      '/a': { get: { operationId: 'same' } },
      '/b': { get: { operationId: 'same' }, trace: {} },
      '/f/{name+}/x': { get: {} },
      '/b.json': { $ref: '#/paths/~1b' },
    },
  })
  const before = draftTable(readOperations('a', text, undefined).slice(0, 1), 'platform')
  const { lines, byHand } = draftAdditions(read(text), parse({ 'a.yaml': before }), 'platform', undefined)
  t.match(lines.join('\n'), /id: same\.2\n/)
  t.equal(byHand.length, 3, byHand.join('\n'))
})

t.test('the command adds to a folder, touches no file of it, and says when nothing is missing', async (t) => {
  const folder = t.testdir({ 'api.yaml': `# ours\n${draftTable(read().slice(0, 3), 'platform')}` })
  const before = readFileSync(join(folder, 'api.yaml'), 'utf8')
  const add = () => runCommand(['policy', 'init', '--openapi', file, '--add', '--policies', folder])
  const first = await add()
  t.match(first, { code: 0, stderr: /16 missing routes/ })
  // As a shell does with `> policies/more.yaml`: the file is there, and empty, before the policy is read.
  writeFileSync(join(folder, 'more.yaml'), '')
  t.equal((await add()).stdout, first.stdout)
  writeFileSync(join(folder, 'more.yaml'), first.stdout)
  t.match(await add(), { code: 0, stdout: '', stderr: /no route is missing/ })
  t.equal(loadPolicy(folder, upstreams).routes.length, 19)
  t.equal(readFileSync(join(folder, 'api.yaml'), 'utf8'), before)
  const init = (...words: string[]) => runCommand(['policy', 'init', '--openapi', file, ...words])
  for (const roles of ['a,a', 'a,', 'a b', ''])
    t.match(await init('--roles', roles), { code: 2, stderr: /--roles takes different names/ }, roles)
  const wrong = ['--add', '--policies', folder, '--roles']
  t.match(await init(...wrong, 'org-owner,org-client'), { code: 2, stderr: /in the order/ })
  t.match(await init(...wrong, 'viewer'), { code: 2, stderr: /names roles of the policy/ })
})

t.test('more than ten warnings of one kind become a count, unless all are asked for', async (t) => {
  const folder = t.testdir({ 'api.yaml': draftTable(read(), 'platform') })
  writeFileSync(
    join(folder, 'many.yaml'),
    `routes:\n${Array.from({ length: 40 }, (_, index) => `  - id: r${index}\n    match: { methods: [GET], path: '/r${index}/:p${index}' }\n    surface: platform\n    upstream: platform\n    require: { role: org-owner }\n`).join('')}`,
  )
  const check = (...words: string[]) => runCommand(['policy', 'check', '--policies', folder, ...words])
  const [brief, all, json] = await Promise.all([check(), check('--all'), check('--json')])
  const shown = brief.stdout.match(/warning:/g)?.length ?? 0
  const { warnings } = JSON.parse(json.stdout)
  t.equal(shown, 4, brief.stdout)
  t.match(brief.stdout, /… and 38 more of this kind; --all shows each\n/)
  t.match(brief.stdout, new RegExp(`${warnings.length} warnings\n$`))
  t.equal(all.stdout.match(/warning:/g)?.length, warnings.length)
})
