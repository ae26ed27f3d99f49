import t from 'tap'
import type { JsonValue } from '../../support/client.ts'
import { runCommand } from '../../support/command-line.ts'
import { writeConfiguration } from '../../support/gateway.ts'
import { populate } from '../../support/population.ts'
import { startTestWorld } from '../../support/world.ts'

const world = await startTestWorld(t)
const { writer } = await populate(t, world)
const config = writeConfiguration(t, { world })

/** The output of the command with `--json`. */
async function read(...words: readonly string[]): Promise<JsonValue> {
  const { code, stdout, stderr } = await runCommand([...words, '--config', config, '--json'])
  if (code !== 0) throw new Error(`${words.join(' ')}: ${stderr}`)
  return JSON.parse(stdout)
}

const readTrail = async (): Promise<readonly string[]> =>
  (await writer.query("select action from audit_events where credential = 'command-line' order by id")).rows.map(
    ({ action }) => action,
  )

t.test('a user, a service account, an agent and an organization come and go by commands', async (t) => {
  const hooli = ['--organization', 'hooli']
  const name = ['--name', 'Hooli', '--slug', 'hooli', '--type', 'enterprise', '--external-id', 'hooli']
  const organization = await read('organizations', 'create', ...name)

  const person = ['--issuer', world.oidc.issuer, '--subject', 'peter']
  const address = ['--email', 'peter@hooli.example', '--external-id', 'peter']
  const user = await read('users', 'create', ...address, ...person)
  t.equal((await read('users', 'create', ...address, ...person)).id, user.id)
  t.match(await read('members', 'add', ...hooli, ...person, '--role', 'org-member'), { userId: user.id })
  t.match(await read('members', 'list', ...hooli), [{ userId: user.id, role: 'org-member' }])
  await read('members', 'remove', ...hooli, '--user', String(user.id))
  t.same(await read('members', 'list', ...hooli), [])
  await read('users', 'disable', ...person)
  t.match(await read('users', 'find', ...person), { id: user.id, disabledAt: String })
  await read('users', 'disable', '--user', String(user.id))
  const { text } = await world.call({
    path: '/users/me',
    headers: { 'x-oauth-access-token': await world.mint({ sub: 'peter', email: 'peter@hooli.example' }) },
  })
  t.match(text, 'unauthenticated')
  const { rows } = await writer.query("select id from users where email = 'peter@hooli.example'")
  t.same(rows, [{ id: user.id }], 'a login of a disabled user creates no new one')

  const account = await read('service-accounts', 'create', ...hooli, '--name', 'ci', '--email', 'ci@hooli.example')
  t.match(await read('service-accounts', 'list', ...hooli), [{ id: account.id, disabledAt: null }])
  await read('service-accounts', 'disable', String(account.id))
  t.match(await read('service-accounts', 'list', ...hooli), [{ id: account.id, disabledAt: String }])

  const agent = await read('agents', 'create', ...hooli, '--name', 'Helper', '--public')
  t.match(await read('agents', 'list', ...hooli), [{ id: agent.id, isPublic: true, archivedAt: null }])
  await read('agents', 'archive', String(agent.id))
  t.match(await read('agents', 'list', ...hooli), [{ id: agent.id, archivedAt: String }])

  const place = ['--slug', 'eu', '--base-url', 'https://eu.hooli.example']
  const cluster = await read('clusters', 'create', ...hooli, '--name', 'EU', ...place)
  const clusters = await read('clusters', 'list')
  t.ok(clusters.some(({ id }: JsonValue) => id === cluster.id))

  await read('organizations', 'archive', 'hooli')
  t.match(await read('organizations', 'show', 'hooli'), { id: organization.id, archivedAt: String })
  t.same(await readTrail(), [
    ...['organization.created', 'user.created', 'member.added', 'member.removed', 'user.disabled'],
    ...['user.created', 'member.added', 'user.disabled', 'agent.created', 'agent.archived', 'cluster.created'],
    'organization.archived',
  ])
})
