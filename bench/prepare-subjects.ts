import { randomInt } from 'node:crypto'
import type pg from 'pg'
import type { World } from '../demo/world.ts'
import { formatToken, makeSecret } from '../gateway/stages/endpoints/token-secret.ts'
import { bearer, oauth } from '../test/support/world.ts'

type Headers = Readonly<Record<string, string>>
type Description = World['description']

/** A member of an organization with a credential of its own. */
export type Member = Readonly<{ userId: number; headers: Headers }>

/** Adds members of an organization: every other one a human with a JWT, the rest service accounts with a token. */
export async function addMembers(
  database: pg.Client,
  { organizations, oidc }: Description,
  count: number,
): Promise<readonly Member[]> {
  const { rows } = await database.query<{ id: number; user_type: string }>(
    `with added as (
      insert into users (email, user_type)
        select 'bench@demo.example', case n % 2 when 0 then 'human' else 'client-managed' end
        from generate_series(1, $1::int) n
      returning id, user_type
    ), joined as (
      insert into role_assignments (user_id, organization_id, role) select id, $2, 'org-member' from added
    ), known as (
      insert into user_identities (user_id, issuer, subject)
        select id, $3, 'bench-' || id from added where user_type = 'human'
    )
    select id, user_type from added order by id`,
    [count, organizations.acme.id, oidc.issuer],
  )
  const accounts = rows.filter(({ user_type }) => user_type === 'client-managed').map(({ id }) => id)
  const tokens = await addTokens(database, accounts)
  const headers = new Map(tokens.map(({ userId, token }) => [userId, bearer(token)]))
  for (const { id } of rows)
    if (!headers.has(id)) headers.set(id, oauth({ jwt: await mintJwt(oidc.mintUrl, `bench-${id}`) }))
  return rows.map(({ id }) => ({ userId: id, headers: headers.get(id) ?? {} }))
}

/** A token as its row and its owner. */
export type AddedToken = Readonly<{ id: number; userId: number; token: string }>

/** Adds a token to each of these accounts, which may be named more than once. */
export async function addTokens(database: pg.Client, userIds: readonly number[]): Promise<readonly AddedToken[]> {
  const secrets = new Map(userIds.map(() => makeSecret(randomInt)).map(({ hash, secret }) => [hash, secret]))
  const { rows } = await database.query<{ id: number; tokenable_id: number; hash: string }>(
    `insert into auth_access_tokens (tokenable_id, type, name, hash, abilities, created_at, updated_at)
      select owner, 'auth_token', 'bench', hash, '["datasets:read"]', now(), now()
      from unnest($1::int[], $2::text[]) as n (owner, hash)
    returning id, tokenable_id, hash`,
    [userIds, [...secrets.keys()]],
  )
  return rows.map(({ id, tokenable_id, hash }) => ({
    id,
    userId: tokenable_id,
    token: formatToken(id, secrets.get(hash) ?? ''),
  }))
}

/** Adds clusters that answer at an address. */
export async function addClusters(
  database: pg.Client,
  { organizations }: Description,
  address: string,
  count: number,
): Promise<readonly number[]> {
  const { rows } = await database.query<{ id: number }>(
    `insert into clusters (organization_id, name, slug, base_url, status, last_heartbeat_at)
      select $1, 'Bench', 'bench-' || gen_random_uuid(), $2, 'active', now() from generate_series(1, $3::int) returning id`,
    [organizations.acme.id, address, count],
  )
  return rows.map(({ id }) => id)
}

async function mintJwt(mintUrl: string, sub: string): Promise<string> {
  const answer = await fetch(mintUrl, { method: 'POST', body: JSON.stringify({ sub }) })
  const { jwt } = (await answer.json()) as { jwt: string }
  return jwt
}
