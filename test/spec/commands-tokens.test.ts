import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import t from 'tap'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import { generatePem } from '../../gateway/tools/cli/keys.ts'
import type { JsonValue } from '../support/client.ts'
import { type Ended, runCommand } from '../support/command-line.ts'
import { until } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { robot } = world.serviceAccounts
const { acme, globex } = world.organizations

const database = new pg.Client({ connectionString: world.databaseUrl })
await database.connect()
t.teardown(() => database.end())

const directory = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
t.teardown(() => rmSync(directory, { recursive: true, force: true }))
const upstream = { url: 'http://127.0.0.1:1' }
writeFileSync(join(directory, 'identity.pem'), generatePem('EdDSA'), { mode: 0o600 })
writeFileSync(
  join(directory, 'gateway.yaml'),
  JSON.stringify({
    database: { url: `\${DATABASE_URL}` },
    issuers: [{ issuer: world.oidc.issuer, audience: 'sallyport-demo' }],
    identity: { keys: ['file:identity.pem'] },
    upstreams: { platform: upstream, agents: upstream, files: upstream, graphql: upstream, data: upstream },
    policies: { directory: fileURLToPath(new URL('../../policies', import.meta.url)) },
  }),
)

const tokens = (args: readonly (string | number)[], url = world.databaseUrl): Promise<Ended> =>
  runCommand(['tokens', ...args.map(String), '--config', join(directory, 'gateway.yaml')], {
    env: { DATABASE_URL: url },
  })
const mint = (...more: readonly (string | number)[]) =>
  tokens(['mint', '--organization', acme.id, '--user', robot.id, '--scope', 'api-key', ...more])
const use = async (token: string) => (await world.call({ path: '/datasets', headers: bearer(token) })).status
const mintByEndpoint = async (body: Readonly<Record<string, unknown>> = {}): Promise<JsonValue> =>
  (
    await world.call({
      method: 'POST',
      path: `/organizations/${acme.id}/users/${robot.id}/tokens`,
      headers: oauth(world.users.admin),
      body: JSON.stringify({ scope: 'api-key', ...body }),
    })
  ).json().data
const audit = async () => (await database.query('select * from audit_events order by id desc limit 1')).rows[0]
const countRows = async () =>
  (
    await database.query(
      `select (select count(*)::int from auth_access_tokens) tokens, (select count(*)::int from audit_events) events`,
    )
  ).rows[0]

const byOperator = {
  actor_id: null,
  credential: 'command-line',
  client_address: 'command-line',
  subject_id: robot.id,
  request_id: /^[0-9a-f-]{36}$/,
}

t.test('a mint prints the token alone, so that a shell can take it, and the rest beside', async (t) => {
  const { code, stdout, stderr } = await mint('--name', 'nightly import')
  t.equal(code, 0, stderr)
  t.match(stdout, /^oat_[\w-]+\.[\w-]+\n$/)
  t.equal(await use(stdout.trim()), 200, 'it works')
  t.match(stderr, /minted token \d+ "nightly import" of user \d+: api-key, does not expire/)
  t.match(stderr, /only its hash is kept/)
  t.notOk(stderr.includes(stdout.trim()), 'it is printed once')
  const id = Number(/minted token (\d+)/.exec(stderr)?.[1])
  t.match(await audit(), { ...byOperator, action: 'token.minted', token_id: id, organization_id: acme.id })
})

t.test('a mint with --json prints the object that the endpoint answers', async (t) => {
  const body = { name: 'x', expiresAt: '2999-01-01T00:00:00.000Z' }
  const ours = JSON.parse((await mint('--json', '--name', body.name, '--expires-at', body.expiresAt)).stdout)
  const shape = ({ id, token, createdAt, ...same }: JsonValue) => [typeof id, typeof token, typeof createdAt, same]
  t.same(shape(ours), shape(await mintByEndpoint(body)))
  t.equal(await use(ours.token), 200)
})

type Refusal = readonly [more: readonly (string | number)[], code: number, stderr: RegExp]
const refusals: Readonly<Record<string, Refusal>> = {
  'an unknown scope': [['--scope', 'root'], 2, /^sallyport: --scope: .*api-key, api-secret/],
  'an expiry in the past': [['--expires-at', '2020-01-01T00:00:00Z'], 2, /^sallyport: --expires-at: .*future/],
  'two mistakes': [
    ['--name', 'x'.repeat(256), '--expires-at', 'x'],
    2,
    /--name: .*255[^\n]*\n--expires-at: .*RFC 3339/,
  ],
  'an organization that is not there': [['--organization', 999], 1, /organization 999 does not exist\. Name another/],
  'a team organization': [['--organization', globex.id], 1, /not an Enterprise organization.*Name another/],
  'a user who is no member': [
    ['--user', world.users.outsider.id],
    1,
    /not a member of organization 1\. Give it a role/,
  ],
  'a human': [['--user', world.users.member.id], 1, /^sallyport: --user: Only client-managed users.*service account/],
}
t.test('a refused mint says what to do, and leaves nothing', async (t) => {
  const before = await countRows()
  const ends = await Promise.all(Object.values(refusals).map(([more]) => mint(...more)))
  for (const [index, [what, [, code, stderr]]] of Object.entries(refusals).entries())
    t.match(ends[index], { code, stderr, stdout: '' }, what)
  t.same(await countRows(), before)
})

t.test('tokens mint reports a missing option', async (t) => {
  t.match(await tokens(['mint', '--user', '8']), { code: 2, stderr: /--organization.*not specified/ })
})

t.test('tokens list prints a table, newest first, with expired tokens and never a secret', async (t) => {
  const { id, token } = await mintByEndpoint({ name: 'the newest', expiresAt: '2999-01-01T00:00:00.000Z' })
  const { code, stdout } = await tokens(['list', '--user', robot.id])
  t.equal(code, 0)
  const [header = '', first = '', ...rest] = stdout.trim().split('\n')
  t.match(header, /^ID +NAME +SCOPE +LAST USED +EXPIRES +CREATED$/)
  t.match(first, new RegExp(`^${id} +the newest +api-key +never +2999-01-01T00:00:00\\.000Z +20`))
  t.ok(rest.some((line) => / expired +api-secret .*\(expired\)/.test(line)))
  t.notMatch(stdout, /oat_/)
  t.notOk(stdout.includes(token))
})

t.test('a list has all of one user’s tokens, however many pages they would be', async (t) => {
  const { rows } = await database.query(
    "insert into users (email, user_type) values ('many@demo.example', 'client-managed') returning id",
  )
  const user = rows[0].id
  t.match(await tokens(['list', '--user', user]), { code: 0, stdout: `user ${user} has no tokens\n` })
  await database.query(
    `insert into auth_access_tokens (tokenable_id, type, hash, abilities, created_at)
     select $1, 'auth_token', 'hash' || n, '[]', now() from generate_series(1, 2001) n`,
    [user],
  )
  const { stdout } = await tokens(['list', '--user', user, '--json'])
  const listed: { id: number }[] = JSON.parse(stdout)
  t.equal(new Set(listed.map(({ id }) => id)).size, 2_001)
  t.same(Object.keys(listed[0] ?? {}).sort(), [
    ...['abilities', 'createdAt', 'expiresAt', 'id', 'lastUsedAt', 'name', 'type'],
  ])
  t.notMatch(stdout, /hash/)
})

t.test('an unknown user is an error and not an empty list', async (t) => {
  t.match(await tokens(['list', '--user', 99_999]), {
    ...{ code: 1, stdout: '', stderr: /user 99999 does not exist\. Name another/ },
  })
})

t.test('a revoked token is 401 from then on; revoking twice fails, says what to do, and leaves nothing', async (t) => {
  const { id, token } = await mintByEndpoint({ name: 'short' })
  t.equal(await use(token), 200)
  t.match(await tokens(['revoke', id]), { code: 0, stdout: `revoked token ${id} "short" of user ${robot.id}\n` })
  await until(async () => (await use(token)) === 401, 'the revocation', 2_000)
  t.match(await audit(), { ...byOperator, action: 'token.revoked', token_id: id, organization_id: null })
  const before = await countRows()
  t.match(await tokens(['revoke', id]), { code: 1, stdout: '', stderr: /token \d+ does not exist.*tokens list/ })
  t.same(await countRows(), before)
})

t.test('a revocation with --json is the metadata; a token given instead of its number is not repeated', async (t) => {
  const { token, ...metadata } = await mintByEndpoint()
  const { code, stderr, stdout } = await tokens(['revoke', token])
  t.same([code, stdout], [2, ''])
  t.match(stderr, /must be an id/)
  t.notOk(stderr.includes(token))
  t.same(JSON.parse((await tokens(['revoke', metadata.id, '--json'])).stdout), metadata)
})

t.test('a database that cannot be asked ends with 1, what to do, and no secret', async (t) => {
  const { code, stderr } = await tokens(['list', '--user', robot.id], 'postgres://user:hunter2@127.0.0.1:1/x')
  t.equal(code, 1)
  t.match(stderr, /^sallyport: database\.url: no server listens there; .* \(ECONNREFUSED\)$/m)
  t.notMatch(stderr, /hunter2|\n\s+at /)
})

t.test(
  'a schema of an earlier release ends with 1 and asks for a migration; a token is not minted without its event',
  async (t) => {
    await database.query('create database earlier template template0')
    const url = new URL(world.databaseUrl)
    url.pathname = '/earlier'
    t.match(await tokens(['list', '--user', 1], url.href), { code: 1, stderr: /Run "sallyport migrate"/ })
    await migrate(url.href)
    const earlier = new pg.Client({ connectionString: url.href })
    await earlier.connect()
    t.teardown(() => earlier.end())
    await earlier.query(`
    alter table audit_events alter column actor_id set not null;
    insert into organizations (name, slug, account_type) values ('o', 'o', 'enterprise');
    insert into users (email, user_type) values ('s@example.com', 'client-managed');
    insert into role_assignments (user_id, organization_id, role) values (1, 1, 'org-member')`)
    const args = ['mint', '--organization', 1, '--user', 1, '--scope', 'api-key']
    t.match(await tokens(args, url.href), { code: 1, stdout: '', stderr: /\(23502\)\. Run "sallyport migrate"/ })
    t.equal((await earlier.query('select from auth_access_tokens')).rowCount, 0)
  },
)
