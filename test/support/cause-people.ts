import { randomInt } from 'node:crypto'
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import pg from 'pg'
import type { Test } from 'tap'
import { longestLine } from '../../gateway/directory/postgres/token-line.ts'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { startIssuer } from './issuer.ts'
import type { TestWorld } from './world.ts'

/** A claim that no output may hold. */
export const canary = 'canary-of-the-claims'

/** Deletions of these are announced by triggers. */
const tables = ['users', 'user_identities', 'role_assignments', 'auth_access_tokens', 'token_parents']

const encode = (text: string): string => Buffer.from(text).toString('base64url')

/** A token with members of its header changed, under its old signature. */
export function changeHeader(jwt: string, changes: object): string {
  const [header = '', ...rest] = jwt.split('.')
  const changed = { ...JSON.parse(Buffer.from(header, 'base64url').toString()), ...changes }
  return [encode(JSON.stringify(changed)), ...rest].join('.')
}

/** An issuer whose keys are in the test's hands. */
export async function startKeyedIssuer(t: Test) {
  const makeKey = async (alg: 'ES256' | 'EdDSA', kid: string) => {
    const { publicKey, privateKey } = await generateKeyPair(alg)
    return { privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg } satisfies JWK }
  }
  const usual = await makeKey('ES256', 'usual')
  const [twin, other] = [await makeKey('EdDSA', 'one'), await makeKey('EdDSA', 'other')]
  const spare = await makeKey('ES256', 'spare')
  const listed = new Set([usual, twin, other, spare])
  const { issuer, asked } = await startIssuer(t, () => [...listed].map(({ jwk }) => jwk))
  const seconds = Math.floor(Date.now() / 1_000)
  const usualClaims = { iss: issuer, aud: 'sallyport-demo', sub: 'keyed', iat: seconds - 60, exp: seconds + 3_600 }
  const sign = (claims: Readonly<Record<string, unknown>> = {}, header: object = {}): Promise<string> => {
    const payload = { ...usualClaims, canary, ...claims }
    const present = Object.fromEntries(Object.entries(payload).filter(([, value]) => value !== null))
    return new SignJWT(present).setProtectedHeader({ alg: 'ES256', kid: 'usual', ...header }).sign(usual.privateKey)
  }
  const signWithoutKid = (): Promise<string> =>
    new SignJWT({ ...usualClaims, canary }).setProtectedHeader({ alg: 'EdDSA' }).sign(twin.privateKey)
  const signWithSpare = (): Promise<string> =>
    new SignJWT({ ...usualClaims, canary }).setProtectedHeader({ alg: 'ES256', kid: 'spare' }).sign(spare.privateKey)
  const withdrawSpare = (): boolean => listed.delete(spare)
  return { issuer, asked, seconds, sign, signWithoutKid, signWithSpare, withdrawSpare }
}

/** People, accounts, tokens and a cluster that the demo world has no need for. */
export async function addPeople(t: Test, world: TestWorld, issuer: string) {
  const database = new pg.Pool({ connectionString: world.databaseUrl, max: 2 })
  database.on('error', () => undefined)
  t.teardown(() => database.end())
  const { acme, globex } = world.organizations
  const insert = async (text: string, values: readonly unknown[]): Promise<number> =>
    (await database.query<{ id: number }>(`insert into ${text} returning id`, [...values])).rows[0]?.id ?? 0
  const addUser = async (name: string, kind: string, roles: readonly (readonly [number | null, string])[]) => {
    const id = await insert('users (email, username, user_type, email_verified) values ($1, $2, $3, true)', [
      `${name}@causes.example`,
      name,
      kind,
    ])
    for (const [organization, role] of roles)
      await insert('role_assignments (user_id, organization_id, role) values ($1, $2, $3)', [id, organization, role])
    return id
  }
  const addHuman = async (name: string, role: string): Promise<number> => {
    const id = await addUser(name, 'human', [[acme.id, role]])
    await insert('user_identities (user_id, issuer, subject) values ($1, $2, $3)', [id, issuer, name])
    return id
  }
  const addToken = async (userId: number, parentId?: number): Promise<Readonly<{ id: number; token: string }>> => {
    const { secret, hash } = makeSecret(randomInt)
    const id = await insert(
      `auth_access_tokens (tokenable_id, type, name, hash, abilities, created_at, updated_at)
       values ($1, 'auth_token', 'causes', $2, '["*"]', now(), now())`,
      [userId, hash],
    )
    if (parentId !== undefined) await insert('token_parents (token_id, parent_id) values ($1, $2)', [id, parentId])
    return { id, token: formatToken(id, secret) }
  }
  const { robotAdmin } = world.serviceAccounts
  let last = await addToken(robotAdmin.id)
  const line = [last]
  while (line.length <= longestLine) {
    last = await addToken(robotAdmin.id, last.id)
    line.push(last)
  }
  const disabled = await addHuman('disabled', 'org-member')
  await database.query('update users set disabled_at = now() where id = $1', [disabled])
  const noteRemoved = 'insert into sallyport_directory.removed_identities (issuer, subject) values ($1, $2)'
  await database.query(noteRemoved, [issuer, 'removed'])
  const member = [acme.id, 'org-member'] as const
  return {
    database,
    ghost: await addHuman('ghost', 'org-ghost'),
    leaver: await addHuman('leaver', 'org-admin'),
    vanishing: await addHuman('vanishing', 'org-admin'),
    expelled: await addHuman('expelled', 'org-admin'),
    longLine: last.token,
    parent: await addToken(robotAdmin.id),
    humanToken: (await addToken(world.users.member.id)).token,
    bypassing: await addUser('bypassing', 'client-managed', [[null, 'admin'], member]),
    foreign: await addUser('foreign', 'client-managed', [[globex.id, 'org-member'], member]),
    higher: await addUser('higher', 'client-managed', [[acme.id, 'org-owner']]),
    badCluster: await insert(
      `clusters (organization_id, name, slug, base_url, last_heartbeat_at) values ($1, 'bad', 'bad', 'ftp://a', now())`,
      [acme.id],
    ),
    /** Deletes without an announcement to the caches. */
    deleteSilently: async (text: string, values: readonly unknown[]): Promise<void> => {
      const client = await database.connect()
      try {
        const triggers = (word: string): Promise<unknown> =>
          client.query(tables.map((table) => `alter table ${table} ${word} trigger user`).join(';'))
        await client.query('begin')
        await triggers('disable')
        await client.query(`delete from ${text}`, [...values])
        await triggers('enable')
        await client.query('commit')
      } finally {
        client.release()
      }
    },
  }
}

export const guessToken = (id: number): string => formatToken(id, makeSecret(randomInt).secret)
