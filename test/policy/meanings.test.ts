import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { diffPolicies } from '../../gateway/analyze/diff/diff.ts'
import type { Policy } from '../../gateway/policy/compile.ts'
import { ConfigurationError } from '../../gateway/policy/configuration-error.ts'
import { parsePolicy } from '../../gateway/policy/load.ts'
import { call } from '../support/client.ts'
import { startTestGateway } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

// Roles and abilities by other names than the specification's.

const ladder = `organizationRoles:
  - { slug: guest, name: Guest, abilities: [reports.run] }
  - { slug: reader, name: Reader, abilities: [reports.view] }
  - { slug: editor, name: Editor, abilities: [reports.change] }
  - { slug: boss, name: Boss, abilities: [tenant.change, keys.issue] }
  - { slug: founder, name: Founder, abilities: [] }
platformRoles: []
tokenScopes: { look: [reports.view], change: [reports.view, reports.change, keys.issue] }
`
const meanings = `meanings:
  reads: { role: reader }
  writes: { role: editor, abilities: [reports.change] }
  manages: { role: boss, abilities: [tenant.change] }
  owns: { role: founder }
`

const compile = (text: string): Policy =>
  parsePolicy('policies', new Map([['roles.yaml', text]]), new Set(['platform']))

function mistakesOf(text: string): readonly string[] {
  try {
    compile(text)
  } catch (error) {
    if (error instanceof ConfigurationError) return error.problems.map(({ message }) => message)
    throw error
  }
  return []
}

t.test('roles and abilities are free where the meanings say which write, manage and own', async (t) => {
  const { meanings: compiled } = compile(ladder + meanings).roles
  const { executes, reads, writes, manages, owns, writeAbilities, manageAbilities } = compiled
  t.strictSame(
    [executes, reads, writes, manages, owns].map(({ slug }) => slug),
    ['guest', 'reader', 'editor', 'boss', 'founder'],
  )
  t.strictSame([writeAbilities, manageAbilities], [new Set(['reports.change']), new Set(['tenant.change'])])
  const { roles } = compile(ladder + meanings.replace(/ {2}reads.*\n/, ''))
  t.equal(roles.meanings.reads.slug, 'guest', 'without a word about it, the lowest role reads')
})

t.test('mistakes of meanings are told', async (t) => {
  const wrong: readonly (readonly [from: string, to: string, said: RegExp])[] = [
    [meanings, '', /must list org-client, org-member, org-admin, org-owner in this order, or say in "meanings"/],
    ['role: editor', 'role: edtor', /role "edtor" is not listed; did you mean "editor"/],
    [
      'abilities: [reports.change] }\n  manages',
      'abilities: [reports.chnge] }\n  manages',
      /no role grants "reports.chnge"/,
    ],
    ['abilities: [tenant.change] }\n  owns', 'abilities: [] }\n  owns', /at least 1|one/],
    ['abilities: [tenant.change] }\n  owns', 'abilities: [x.y] }\n  owns', /no role grants "x.y"/],
    ['  owns: { role: founder }\n', '', /owns/],
    ['owns: { role: founder }', 'owns: { role: editor }', /role "boss" is above "editor", which owns/],
    ['reads: { role: reader }', 'reads: { role: boss }', /role "boss" is above "editor", which writes/],
    ['reads: {', 'raeds: {', /raeds/],
  ]
  for (const [from, to, said] of wrong) {
    const text = (ladder + meanings).replace(from, to)
    t.not(text, ladder + meanings)
    t.match(mistakesOf(text).join('\n'), said, to)
  }
  const twice = new Map([
    ['a.yaml', ladder + meanings],
    ['b.yaml', meanings],
  ])
  t.throws(() => parsePolicy('policies', twice, new Set()), /meanings are already in/)
})

t.test('a comparison shows a changed meaning', async (t) => {
  const old = compile(ladder + meanings)
  const fresh = compile(ladder + meanings.replace('manages: { role: boss', 'manages: { role: editor'))
  const diff = diffPolicies({ old, new: fresh })
  t.equal(diff.isWidened, true, 'editors may mint more')
  t.equal(diffPolicies({ old, new: old }).isWidened, false)
  t.strictSame(diff.roles, [{ what: 'role that manages', old: 'boss', new: 'editor', widens: true }])
})

t.test('the gateway answers by declared meanings', async (t) => {
  const world = await startTestWorld(t)
  const { acme, initech } = world.organizations
  const { member, admin, owner, client } = world.users
  const { robot, robotAdmin } = world.serviceAccounts
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  cpSync(new URL('../../policies/policy.schema.json', import.meta.url), join(folder, 'policy.schema.json'))
  writeFileSync(join(folder, 'roles.yaml'), ladder + meanings)
  const mint = '/organizations/:id/users/:userId/tokens'
  writeFileSync(
    join(folder, 'routes.yaml'),
    `routes:
  - { id: me, match: { path: /users/me }, surface: platform, answer: users.me }
  - { id: switch, match: { methods: [POST], path: '/organizations/:id/switch' }, surface: platform, answer: organizations.switch, organization: { param: id } }
  - { id: mint, match: { methods: [POST], path: '${mint}' }, surface: platform, answer: tokens.mint, organization: { param: id }, require: { role: editor, ability: keys.issue } }
`,
  )
  const database = new pg.Client({ connectionString: world.databaseUrl })
  await database.connect()
  t.teardown(() => database.end())
  const names = { 'org-client': 'guest', 'org-member': 'reader', 'org-admin': 'boss', 'org-owner': 'founder' }
  for (const [before, after] of Object.entries(names))
    await database.query('update role_assignments set role = $2 where role = $1', [before, after])
  const gateway = await startTestGateway(t, { world, settings: { policies: { directory: folder } } })
  const permissionOf = async (headers: Record<string, string>) => {
    const { status, json } = await call(gateway.public, {
      path: '/users/me',
      headers: { ...headers, 'x-organization-id': String(acme.id) },
    })
    const { data } = json()
    return [
      status,
      data?.organizationUserPermission,
      data?.canWriteToCurrentOrganization,
      data?.canModifyCurrentOrganization,
      data?.ownsCurrentOrganization,
    ]
  }
  t.strictSame(await permissionOf(oauth(client)), [200, 'execute', false, false, false])
  t.strictSame(await permissionOf(oauth(member)), [200, 'read', false, false, false])
  t.strictSame(await permissionOf(oauth(admin)), [200, 'write', true, true, false])
  t.strictSame(await permissionOf(oauth(owner)), [200, 'own', true, true, true])
  await database.query("update role_assignments set role = 'editor' where user_id = $1 and organization_id = $2", [
    member.id,
    acme.id,
  ])
  const setAbilities = (abilities: readonly string[]) =>
    database.query('update auth_access_tokens set abilities = $2 where tokenable_id = $1', [
      robot.id,
      JSON.stringify(abilities),
    ])
  await database.query("update role_assignments set role = 'editor' where user_id = $1", [robot.id])
  const change = (headers: Record<string, string>) =>
    call(gateway.public, { method: 'POST', path: `/organizations/${acme.id}/switch`, headers })
  await setAbilities(['reports.view', 'x:write'])
  t.equal((await change(bearer(robot.apiKey))).status, 403, 'a name that ends in :write is no ability that writes')
  await setAbilities(['reports.change'])
  t.equal((await change(bearer(robot.apiSecret))).status, 200)
  const mintFor = (userId: number, headers: Record<string, string>) =>
    call(gateway.public, {
      method: 'POST',
      path: `/organizations/${acme.id}/users/${userId}/tokens`,
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ scope: 'look' }),
    })
  t.equal((await mintFor(robotAdmin.id, oauth(owner))).status, 201)
  await database.query("insert into role_assignments (user_id, organization_id, role) values ($1, $2, 'guest')", [
    robotAdmin.id,
    initech.id,
  ])
  await database.query("insert into role_assignments (user_id, organization_id, role) values ($1, $2, 'editor')", [
    owner.id,
    initech.id,
  ])
  t.equal((await mintFor(robotAdmin.id, oauth(owner))).status, 403, 'an editor does not manage that organization')
  await database.query("update role_assignments set role = 'boss' where user_id = $1 and organization_id = $2", [
    owner.id,
    initech.id,
  ])
  t.equal((await mintFor(robotAdmin.id, oauth(owner))).status, 201, 'a boss does')
})
