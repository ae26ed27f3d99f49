import pg from 'pg'
import t from 'tap'
import { startIssuer } from '../../demo/issuer.ts'
import { adoptDatabase, readExample } from '../support/adonis/adopted.ts'
import { backendRows, backendTables } from '../support/adonis/tables.ts'
import { type Answer, call } from '../support/client.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { startTestDatabase } from '../support/world.ts'

const databaseUrl = await startTestDatabase(t)
const issuer = await startIssuer({ audience: 'sallyport-demo' })
t.teardown(() => issuer.stop())
const owner = new pg.Client({ connectionString: databaseUrl })
await owner.connect()
await owner.query(`${backendTables}; ${backendRows}`)
await owner.end()
const { backend, gatewayUrl } = await adoptDatabase(t, databaseUrl)

const start = async (linkVerifiedEmail: boolean) => {
  const issuers = [{ issuer: issuer.issuer, audience: 'sallyport-demo', linkVerifiedEmail }]
  const gateway = await startTestGateway(t, { settings: { database: { url: gatewayUrl }, issuers } })
  return async (subject: string, email: string, claims = {}): Promise<Answer> => {
    const jwt = await issuer.mint({ sub: subject, email, claims })
    return call(gateway.public, { path: '/users/me', headers: { 'x-oauth-access-token': jwt } })
  }
}
const [login, loginLinking] = [await start(false), await start(true)]
const countUsers = async (): Promise<number> => (await backend.query('select from users')).rowCount ?? 0

t.test('an address that is taken, and must be unique, is 401 and writes nothing', async (t) => {
  const before = await countUsers()
  const answer = await login('impostor', 'robot@acme.example')
  t.match(answer.json(), { error: { status: 401, code: 'unauthenticated' } })
  t.equal(await countUsers(), before)
  t.equal((await backend.query('select from sallyport_directory.user_identities')).rowCount, 0)
})

t.test('a user missing from the view is 401, and not created again under another address', async (t) => {
  t.equal((await login('leaver', 'leaver@acme.example')).status, 200)
  await backend.query("update users set deleted_at = now() where email = 'leaver@acme.example'")
  await until(async () => (await login('leaver', 'leaver@acme.example')).status === 401, 'the refusal')
  const before = await countUsers()
  t.equal((await login('leaver', 'other@acme.example')).status, 401)
  t.equal(await countUsers(), before)
})

t.test('a deleted user is created again', async (t) => {
  const first = (await login('returner', 'returner@acme.example')).json().data.id
  t.type(first, 'number')
  await backend.query('delete from users where id = $1', [first])
  const isNew = async (): Promise<boolean> => (await login('returner', 'returner@acme.example')).json().data.id > first
  await until(isNew, 'another user')
})

t.test('a trigger that declines keeps people out whom the backend does not know', async (t) => {
  await backend.query(`create function decline() returns trigger language plpgsql as 'begin return null; end';
    create trigger a_decline instead of insert on sallyport_directory.users for each row execute function decline()`)
  t.teardown(() => backend.query('drop function decline cascade'))
  const before = await countUsers()
  t.equal((await login('stranger', 'stranger@acme.example')).status, 401)
  t.equal(await countUsers(), before)
})

t.test('an issuer that may link finds the backend’s own user, whose address the backend has verified', async (t) => {
  const example = readExample(new URL(gatewayUrl).username)
  await backend.query(`begin; ${example.replace('false as email_verified', 'true as email_verified')}; commit`)
  const { rows } = await backend.query(
    "insert into users (email, password, created_at) values ('Person@acme.example', 'x', now()) returning id",
  )
  const answer = await loginLinking('person', 'person@acme.example', { email_verified: true })
  t.match(answer.json(), { data: { id: rows[0].id } })
})
