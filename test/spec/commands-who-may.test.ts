import pg from 'pg'
import t from 'tap'
import { call, type JsonValue } from '../support/client.ts'
import { runCommand } from '../support/command-line.ts'
import { writeConfiguration } from '../support/gateway.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, organizations, agents, clusters, objects } = world
const { acme, globex } = organizations
const configurationFile = writeConfiguration(t, { world })

const database = new pg.Client({ connectionString: world.databaseUrl })
await database.connect()
t.teardown(() => database.end())

const whoMay = (method: string, path: string, ...words: readonly (string | number)[]) =>
  runCommand(['policy', 'who-may', method, path, ...words.map(String), '--config', configurationFile])

const listIds = async (method: string, path: string, ...words: readonly (string | number)[]) => {
  const { code, stdout, stderr } = await whoMay(method, path, '--json', ...words)
  if (code !== 0) throw new Error(stderr)
  return JSON.parse(stdout).map(({ userId }: JsonValue): number => userId)
}

const requests: readonly (readonly [method: string, path: string])[] = [
  ['GET', '/datasets'],
  ['DELETE', '/datasets/5'],
  ['GET', `/objects/datasets/${objects.datasets.acmePrivate}`],
  ['PUT', `/objects/datasets/${objects.datasets.acme}`],
  ['GET', `/objects/datasets/${objects.datasets.globex}`],
  ['POST', `/agent/${agents.globex}/responses`],
  ['GET', `/clusters/${Object.values(clusters)[0]}/proxy/x`],
  ['POST', `/organizations/${acme.id}/switch`],
  ['GET', '/admin/x'],
]

t.test('the members whom the command lists are those whose requests the gateway permits', async (t) => {
  const { rows } = await database.query<{ user_id: number }>(
    'select user_id from role_assignments where organization_id = $1',
    [acme.id],
  )
  const slugs = await database.query<{ slug: string }>('select slug from organizations where id = $1', [acme.id])
  const members = Object.entries(users).filter(([, { id }]) => rows.some(({ user_id }) => user_id === id))
  t.ok(members.length > 3, 'the members were found')
  for (const [method, path] of requests) {
    const listed = await listIds(method, path, '--organization', slugs.rows[0]?.slug ?? '')
    for (const [name, user] of members) {
      const { status } = await call(world.decision, {
        path: '/authorize',
        headers: {
          ...oauth(user),
          'x-original-method': method,
          'x-original-uri': path,
          'x-organization-id': String(acme.id),
        },
      })
      t.equal(listed.includes(user.id), status === 200, `${name} ${method} ${path}: ${status}`)
    }
    const strangers = listed.filter((id: number) => !rows.some(({ user_id }) => user_id === id))
    t.same(strangers, [], 'members alone')
  }
})

t.test('policy who-may prints a table, or JSON', async (t) => {
  const { code, stdout } = await whoMay('get', '/datasets', '--organization', acme.id)
  t.equal(code, 0)
  t.match(stdout, /^USER +ROLE +TYPE +EMAIL/)
  const ids = stdout
    .split('\n')
    .slice(1, -1)
    .map((line) => Number(line.split(' ')[0]))
  t.same(ids, await listIds('GET', '/datasets', '--organization', acme.id))
  const last = ids.at(-2) ?? 0
  t.same(await listIds('GET', '/datasets', '--organization', acme.id, '--after', last), ids.slice(-1))
  const [row] = JSON.parse((await whoMay('GET', '/datasets', '--organization', acme.id, '--json')).stdout)
  t.same(Object.keys(row), ['userId', 'role', 'userType', 'email', 'username'])
  const foreign = `/organizations/${globex.id}/switch`
  const none = await whoMay('POST', foreign, '--organization', acme.id)
  t.match(none, { code: 0, stdout: 'no member of the organization may do this\n' })
})

t.test('a request without a route, and an organization that does not exist, are told', async (t) => {
  const lost = await whoMay('GET', '/nothing', '--organization', acme.id)
  t.equal(lost.code, 1)
  t.match(lost.stderr, /no route takes GET \/nothing/)
  const unknown = await whoMay('GET', '/datasets', '--organization', 'nowhere')
  t.equal(unknown.code, 1)
  t.match(unknown.stderr, /organization "nowhere" does not exist/)
  t.equal((await whoMay('GET', '/datasets')).code, 2, 'without an organization')
})

t.test('more than 200 members are listed whole', async (t) => {
  const before = await listIds('GET', '/datasets', '--organization', acme.id)
  await database.query(
    `with added as (
      insert into users (email, user_type) select 'many-' || n || '@people.example', 'human'
      from generate_series(1, 450) n returning id
    ) insert into role_assignments (user_id, organization_id, role) select id, $1, 'org-member' from added`,
    [acme.id],
  )
  const after = await listIds('GET', '/datasets', '--organization', acme.id)
  t.equal(after.length, before.length + 450)
  t.equal(new Set(after).size, after.length)
})
