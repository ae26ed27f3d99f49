import pg from 'pg'
import type { Test } from 'tap'
import { startKeyedIssuer } from './cause-people.ts'
import { type Answer, call } from './client.ts'
import { anyPort } from './gateway.ts'
import { oauth, patience, type TestWorld } from './world.ts'

export const logoutEvent = 'http://schemas.openid.net/event/backchannel-logout'

export const client = 'sallyport-client'

export const seconds = (): number => Math.floor(Date.now() / 1_000)

/** An issuer that signs logout tokens, its users in the database, and the settings of a gateway that takes them. */
export async function prepareLogouts(t: Test, world: TestWorld) {
  const issuer = await startKeyedIssuer(t)
  const database = new pg.Pool({ connectionString: world.databaseUrl, max: 2 })
  database.on('error', () => undefined)
  t.teardown(() => database.end())
  let count = 0
  const insert = async (row: string, values: readonly unknown[]): Promise<number> =>
    (await database.query<{ id: number }>(`insert into ${row} returning id`, [...values])).rows[0]?.id ?? 0
  /** A member of acme, and the subject of its JWTs. */
  const addSubject = async (): Promise<string> => {
    count += 1
    const subject = `subject-${count}`
    const id = await insert("users (email, user_type) values ($1, 'human')", [`${subject}@logouts.example`])
    const { acme } = world.organizations
    await insert('role_assignments (user_id, organization_id, role) values ($1, $2, $3)', [id, acme.id, 'org-member'])
    await insert('user_identities (user_id, issuer, subject) values ($1, $2, $3)', [id, issuer.issuer, subject])
    return subject
  }
  let logouts = 0
  const signLogout = (claims: Readonly<Record<string, unknown>> = {}, header: object = {}): Promise<string> => {
    logouts += 1
    const iat = seconds()
    const usual = { aud: client, iat, exp: iat + 120, jti: `logout-${logouts}`, events: { [logoutEvent]: {} } }
    // Claims of an access token that a logout token does not have.
    const without = { sub: null, canary: null }
    return issuer.sign({ ...without, ...usual, ...claims }, { typ: 'logout+jwt', ...header })
  }
  const settings = {
    // On a busy machine a lookup takes a while.
    database: { url: world.databaseUrl, ...patience },
    listeners: { public: anyPort, decision: anyPort, admin: anyPort, signals: anyPort },
    issuers: [
      {
        issuer: issuer.issuer,
        audience: 'sallyport-demo',
        jwksUri: `${issuer.issuer}/keys`,
        clockToleranceSeconds: 0,
        logout: { audience: client },
      },
    ],
  }
  return { issuer, database, addSubject, signLogout, settings }
}

export type LogoutFixture = Awaited<ReturnType<typeof prepareLogouts>>

export const push = (
  { signals }: Readonly<{ signals: string }>,
  token: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> =>
  call(signals, {
    method: 'POST',
    path: '/backchannel-logout',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    body: new URLSearchParams({ logout_token: token }).toString(),
  })

export const statusOf = async (gateway: Readonly<{ public: string }>, jwt: string): Promise<number> =>
  (await call(gateway.public, { path: '/users/me', headers: oauth({ jwt }) })).status
