import { randomInt } from 'node:crypto'
import pg from 'pg'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import type { Owner } from './owner.ts'
import { bearer, type TestWorld } from './world.ts'

/** Writes to a world's database as another program would: the gateway learns of it by the database alone. */
export type Population = Readonly<{
  writer: pg.Client
  /** Inserts `table (columns) values (…)` and returns the id. */
  insert: (row: string, values?: readonly unknown[]) => Promise<number>
  assign: (user: number, organization: number, role: string) => Promise<unknown>
  /** A service account that is a member of acme, with a token of every ability. */
  addAccount: (name: string) => Promise<Account>
}>

export type Account = Readonly<{ id: number; tokenId: number; headers: Record<string, string> }>

/** Connects; the connection ends with the test. */
export async function populate(t: Owner, world: Pick<TestWorld, 'databaseUrl' | 'organizations'>): Promise<Population> {
  const writer = new pg.Client({ connectionString: world.databaseUrl })
  // A test may kill the server under it.
  writer.on('error', () => {})
  await writer.connect()
  t.teardown(() => writer.end().catch(() => {}))
  const insert: Population['insert'] = async (row, values = []) => {
    const { rows } = await writer.query<{ id: number }>(`insert into ${row} returning id`, [...values])
    return rows[0]?.id ?? 0
  }
  const assign: Population['assign'] = (user, organization, role) =>
    insert('role_assignments (user_id, organization_id, role) values ($1, $2, $3)', [user, organization, role])
  const addAccount: Population['addAccount'] = async (name) => {
    const id = await insert("users (email, user_type) values ($1, 'client-managed')", [`${name}@demo.example`])
    await assign(id, world.organizations.acme.id, 'org-member')
    const { secret, hash } = makeSecret(randomInt)
    const tokenId = await insert(
      `auth_access_tokens (tokenable_id, type, hash, abilities) values ($1, 'auth_token', $2, '["*"]')`,
      [id, hash],
    )
    return { id, tokenId, headers: bearer(formatToken(tokenId, secret)) }
  }
  return { writer, insert, assign, addAccount }
}
