import { randomInt } from 'node:crypto'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { Test } from 'tap'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import { loadPolicy } from '../../gateway/policy/load.ts'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { type Answer, type Call, call } from './client.ts'
import { anyPort } from './gateway.ts'
import { bearer, type TestWorld } from './world.ts'

export const pdpUrl = 'https://pdp.example'

export const evaluateAbility = ['decisions:evaluate']

export const user = (id: string) => ({ type: 'user', id })

export const record = (id: string) => ({ type: 'record', id })

export const may = (subject: string, name: string, resource: object) => ({
  subject: user(subject),
  action: { name },
  resource,
})

export type Ask = (path: string, body: unknown, headers?: Call['headers']) => Promise<Answer>

/** A policy with a kind `record`, the people of the certification scenario in a world, and accounts that may ask. */
export async function prepareAuthzen(t: Test, world: TestWorld) {
  const { users, serviceAccounts } = world
  const { acme, globex } = world.organizations
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  cpSync(fileURLToPath(new URL('../../policies', import.meta.url)), folder, { recursive: true })
  const roles = readFileSync(join(folder, 'roles.yaml'), 'utf8')
  writeFileSync(
    join(folder, 'roles.yaml'),
    roles
      .replace('- datasets:read\n', '- datasets:read\n      - records:read\n')
      .replace('- datasets:write\n', '- datasets:write\n      - records:write\n      - decisions:evaluate\n')
      .replace('tokenScopes:\n', 'tokenScopes:\n  decision-point: [decisions:evaluate]\n'),
  )
  const guarded = { surface: 'platform', upstream: 'platform', resource: { kind: 'record', param: 'id' } }
  writeFileSync(
    join(folder, 'records.yaml'),
    JSON.stringify({
      resources: { record: { id: 'text' } },
      routes: [
        {
          id: 'records.get',
          match: { methods: ['GET'], path: '/records/:id' },
          ...guarded,
          require: { role: 'org-member', ability: 'records:read' },
        },
        {
          id: 'records.change',
          match: { methods: ['PUT'], path: '/records/:id' },
          ...guarded,
          require: { role: 'org-admin', ability: 'records:write' },
        },
      ],
    }),
  )
  const upstreamNames = new Set(['platform', 'agents', 'files', 'graphql', 'data'])
  await migrate(world.databaseUrl, { resources: [...loadPolicy(folder, upstreamNames).resources.values()] })

  const database = new pg.Client({ connectionString: world.databaseUrl })
  await database.connect()
  t.teardown(() => database.end())

  async function addUser(name: string, organizationId: number, role: string, kind = 'human'): Promise<number> {
    const { rows } = await database.query(
      `insert into users (email, username, user_type, email_verified) values ($1, $2, $3, true) returning id`,
      [`${name}.${organizationId}@people.example`, name, kind],
    )
    const { id } = rows[0]
    await database.query('insert into role_assignments (user_id, organization_id, role) values ($1, $2, $3)', [
      id,
      organizationId,
      role,
    ])
    return id
  }

  async function addToken(userId: number, abilities: readonly string[]): Promise<string> {
    const { secret, hash } = makeSecret(randomInt)
    const { rows } = await database.query(
      `insert into auth_access_tokens (tokenable_id, type, hash, abilities) values ($1, 'auth_token', $2, $3) returning id`,
      [userId, hash, JSON.stringify(abilities)],
    )
    return formatToken(rows[0].id, secret)
  }

  await addUser('alice', acme.id, 'org-admin')
  await addUser('bob', acme.id, 'org-member')
  await addUser('bob', globex.id, 'org-owner')
  await addUser('carol', globex.id, 'org-owner')
  await addUser('twin', acme.id, 'org-owner')
  await addUser('twin', acme.id, 'org-owner')
  await database.query(
    `insert into resources_record (id, organization_id) values ('record-1', $1), ('record-2', $1), ('record-3', $2)`,
    [acme.id, globex.id],
  )
  for (const [name, { id }] of Object.entries(users))
    await database.query('update users set username = $1 where id = $2', [name, id])

  const evaluator = await addToken(serviceAccounts.robotAdmin.id, evaluateAbility)
  const elsewhere = await addToken(await addUser('pdp', globex.id, 'org-admin', 'client-managed'), evaluateAbility)

  const settings = {
    policies: { directory: folder },
    audit: { sink: 'stdout' },
    cluster: { networks: { allow: ['127.0.0.0/8'] } },
    listeners: {
      public: anyPort,
      decision: { ...anyPort, authzen: { url: pdpUrl, subject: 'username' } },
      admin: anyPort,
    },
  }
  const createAsk =
    (origin: string): Ask =>
    (path, body, headers = bearer(evaluator)) =>
      call(origin, {
        method: 'POST',
        path: `/access/v1/${path}`,
        headers: { 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      })
  return { folder, settings, database, addUser, addToken, evaluator, elsewhere, createAsk }
}
