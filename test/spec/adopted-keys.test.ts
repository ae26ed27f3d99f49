import pg from 'pg'
import t, { type Test } from 'tap'
import { startIssuer } from '../../demo/issuer.ts'
import { checkDirectory } from '../../gateway/directory/postgres/check/check-directory.ts'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { adoptKeyedDatabase, firstOrganization, readKeyedExample } from '../support/adonis/keyed.ts'
import { type Answer, call } from '../support/client.ts'
import { startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { bearer, patience, startTestDatabase } from '../support/world.ts'

const rows = `
  insert into organizations (name, slug, account_type, created_at) values ('Acme', 'acme', 'enterprise', now());
  insert into roles (name, slug) values ('Owner', 'org-owner'), ('Admin', 'org-admin'), ('Member', 'org-member');
  insert into users (email, password, user_type, created_at) values ('robot@acme.example', 'x', 'client-managed', now());
  insert into user_roles (user_id, role_id, organization_id) select id, 3, ${firstOrganization} from users;
  insert into agents (organization_id) values (${firstOrganization});
  insert into data_clusters (organization_id, slug, url) values (${firstOrganization}, 'a', 'http://a.example')`

const databaseUrl = await startTestDatabase(t)
const issuer = await startIssuer({ audience: 'sallyport-demo' })
t.teardown(() => issuer.stop())
const { backend, gatewayUrl } = await adoptKeyedDatabase(t, databaseUrl, rows)
const role = new URL(gatewayUrl).username
const upstream = await startRawUpstream(t, (socket) => {
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
})
const gateway = await startTestGateway(t, {
  world: { databaseUrl: gatewayUrl, oidc: { issuer: issuer.issuer, audience: 'sallyport-demo', mintUrl: '' } },
  // Twenty first logins at once open ten connections, which takes a busy machine a while.
  settings: { database: { url: gatewayUrl, ...patience } },
  upstreams: { platform: { url: upstream.url } },
})
const heard: string[] = []
backend.on('notification', ({ payload = '' }) => heard.push(payload))
await backend.query('listen sallyport_changes')

const numberOf = async (kind: string, key: string): Promise<number> => {
  const found = await backend.query(
    'select id from sallyport_directory.external_ids where kind = $1 and external_id = $2',
    [kind, key],
  )
  return found.rows[0]?.id
}
const login = async (subject: string, path = '/users/me', method = 'GET', body?: object): Promise<Answer> => {
  const jwt = await issuer.mint({ sub: subject, email: `${subject}@acme.example` })
  const headers = { 'x-oauth-access-token': jwt, 'content-type': 'application/json' }
  return call(gateway.public, { path, method, headers, ...(body && { body: JSON.stringify(body) }) })
}
const keyOf = async (subject: string): Promise<string> =>
  (await backend.query('select id from users where email = $1', [`${subject}@acme.example`])).rows[0]?.id
const give = (subject: string, roleId: number): Promise<unknown> =>
  backend.query(
    `insert into user_roles (user_id, role_id, organization_id)
      select id, $2, ${firstOrganization} from users where email = $1`,
    [`${subject}@acme.example`, roleId],
  )

t.test('the check finds nothing wrong with what the documentation makes of uuids and large integers', async (t) => {
  const vocabulary = { roles: new Set(['org-owner', 'org-admin', 'org-member']), resources: [] }
  const { problems } = await checkDirectory({ url: gatewayUrl, vocabulary, triesWrites: true, timeoutMs: 10_000 })
  t.same(problems, [])
})

t.test('a first login has one integer, and the backend also finds its own keys in the identity header', async (t) => {
  const answers = await Promise.all(Array.from({ length: 20 }, () => login('first')))
  t.same([...new Set(answers.map(({ status }) => status))], [200])
  const key = await keyOf('first')
  const id = await numberOf('user', key)
  t.same([...new Set(answers.map((answer) => answer.json().data.id))], [id])
  await give('first', 3)
  await until(async () => (await login('first', '/datasets')).status === 200, 'the membership')
  const [, payload = ''] = /x-gateway-identity: [\w-]+\.([\w-]+)\./.exec(upstream.received().join('')) ?? []
  const organization = await numberOf('organization', firstOrganization)
  t.match(JSON.parse(Buffer.from(payload, 'base64url').toString()), {
    sub: String(id),
    user: { id, externalId: key },
    organization: { id: organization, externalId: firstOrganization, slug: 'acme', role: 'org-member' },
  })
  const me = await login('first')
  t.match(me.json(), { data: { id, currentOrganization: { id: organization }, roles: [{ id: Number }] } })
  t.notMatch(me.text, new RegExp(`${key}|${firstOrganization}|externalId`), 'outside only the integers are seen')
})

t.test('a token of the backend is accepted, and one that is minted here belongs to the same user', async (t) => {
  const { secret, hash } = makeSecret((limit) => limit - 1)
  const robot = await keyOf('robot')
  const { rows: made } = await backend.query(
    `insert into auth_access_tokens (tokenable_id, type, hash, abilities) values ($1, 'auth_token', $2, '["*"]')
      returning id`,
    [robot, hash],
  )
  const use = async (token: string) =>
    (await call(gateway.public, { path: '/datasets', headers: bearer(token) })).status
  t.equal(await use(formatToken(made[0].id, secret)), 200)
  await login('minter')
  await give('minter', 1)
  const [organization, account] = [await numberOf('organization', firstOrganization), await numberOf('user', robot)]
  const tokens = `/organizations/${organization}/users/${account}/tokens`
  const mint = () => login('minter', tokens, 'POST', { scope: 'api-key', name: 'here' })
  await until(async () => (await mint()).status === 201, 'the right to mint')
  const { id, token } = (await mint()).json().data
  const stored = await backend.query('select tokenable_id, expires_at from auth_access_tokens where id = $1', [id])
  t.same(stored.rows, [{ tokenable_id: robot, expires_at: null }])
  t.equal(await use(token), 200)
  await until(
    async () =>
      (await backend.query('select last_used_at from auth_access_tokens where id = $1', [id])).rows[0]?.last_used_at,
    'the note of its use',
  )
  t.equal((await login('minter', `${tokens}/${id}`, 'DELETE')).status, 200)
  t.equal(await use(token), 401)
  t.equal((await backend.query('select from auth_access_tokens where id = $1', [id])).rowCount, 0)
})

t.test('a switch of the organization writes the key of the backend', async (t) => {
  await login('switcher')
  await give('switcher', 3)
  const organization = await numberOf('organization', firstOrganization)
  const change = () => login('switcher', `/organizations/${organization}/switch`, 'POST', {})
  await until(async () => (await change()).status === 200, 'the switch')
  const { rows: read } = await backend.query('select current_organization_id as at from users where id = $1', [
    await keyOf('switcher'),
  ])
  t.same(read, [{ at: firstOrganization }])
})

t.test('changes are told by number, of both sides', async (t) => {
  await login('mover')
  await give('mover', 3)
  const user = await numberOf('user', await keyOf('mover'))
  const organization = await numberOf('organization', firstOrganization)
  heard.length = 0
  await backend.query('delete from user_roles where user_id = $1', [await keyOf('mover')])
  await until(() => heard.length === 2, 'the notifications')
  t.same(
    heard.map((payload) => JSON.parse(payload)).sort((a, b) => a.kind.localeCompare(b.kind)),
    [
      { kind: 'members', id: organization },
      { kind: 'user', id: user },
    ],
  )
  await until(async () => (await login('mover', '/datasets')).status === 403, 'the end of the role')
})

t.test('a number belongs to one key, and is not given again', async (t) => {
  const insert = (email: string, id?: string) =>
    backend.query(
      'insert into users (id, email, password, created_at) values (coalesce($2, gen_random_uuid()), $1, $3, now()) returning id',
      [email, id, 'x'],
    )
  const key = (await insert('again@x.example')).rows[0].id
  const number = await numberOf('user', key)
  await backend.query('delete from users where id = $1', [key])
  t.ok((await numberOf('user', (await insert('other@x.example')).rows[0].id)) > number)
  await insert('again@x.example', key)
  t.equal(await numberOf('user', key), number)
})

t.test('writers of the same new keys in other orders number each once, and none fails', async (t) => {
  const clients = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const client = new pg.Client({ connectionString: databaseUrl })
      await client.connect()
      t.teardown(() => client.end())
      return client
    }),
  )
  await backend.query(`create table notes (id serial primary key, user_id uuid not null);
    call sallyport_directory.watch('notes', '{user:user_id}')`)
  const keys = Array.from({ length: 40 }, (_, n) => `00000000-0000-0000-0000-${String(n).padStart(12, '0')}`)
  const write = async (client: pg.Client, index: number): Promise<void> => {
    const ordered = index % 2 === 0 ? keys : keys.toReversed()
    for (const key of ordered) await client.query('insert into notes (user_id) values ($1)', [key])
    await client.query('insert into notes (user_id) select unnest($1::uuid[])', [ordered])
  }
  await Promise.all(clients.map(write))
  const { rows: numbered } = await backend.query(
    `select count(*)::int as keys, count(distinct id)::int as numbers from sallyport_directory.external_ids
      where external_id like '00000000-%'`,
  )
  t.same(numbered, [{ keys: 40, numbers: 40 }])
  t.equal((await backend.query('select from notes')).rowCount, 8 * 80)
})

t.test('a backend writes on where no number is left, and every replica is told to look again', async (t) => {
  await backend.query('begin')
  t.teardown(() => backend.query('rollback'))
  await backend.query('alter table sallyport_directory.external_ids alter column id restart with 2147483647')
  const insert = (email: string) =>
    backend.query('insert into users (email, password, created_at) values ($1, $2, now()) returning id', [email, 'x'])
  t.type(await numberOf('user', (await insert('last@x.example')).rows[0].id), 'number')
  t.equal(await numberOf('user', (await insert('beyond@x.example')).rows[0].id), undefined)
  await backend.query('drop table sallyport_directory.external_ids cascade')
  await t.resolves(insert('lost@x.example'))
  await t.resolves(backend.query("delete from users where email = 'lost@x.example'"))
})

t.test('the gateway’s role writes by the numbered views alone, and its rights outlive a new mapping', async (t) => {
  const own = new pg.Client({ connectionString: gatewayUrl })
  await own.connect()
  t.teardown(() => own.end())
  const before = await numberOf('user', await keyOf('robot'))
  for (const sql of [
    readKeyedExample(role),
    'call sallyport_directory.number_views()',
    "call sallyport_directory.watch('sallyport_directory.user_identities', '{user:user_id}')",
  ])
    await backend.query(sql)
  t.equal(await numberOf('user', await keyOf('robot')), before)
  const numbered = await backend.query(
    "select from sallyport_directory.external_ids where external_id ~ '^[0-9]{1,9}$'",
  )
  t.equal(numbered.rowCount, 0, 'a number is no key')
  await t.rejects(
    own.query('update sallyport_directory.users set current_organization_id = 2000000000 where id = $1', [before]),
    { code: '23503' },
  )
  for (const sql of [
    `create temp view mine as select * from sallyport_directory.users;
      create trigger mine instead of update on mine for each row
        execute function sallyport_directory.write_numbered('{id:user:false}')`,
    `create temp table mine (id text);
      create trigger mine after truncate on mine for each statement
        execute function sallyport_directory.changes_of_users('{user:id:external}', '{}')`,
    "update sallyport_directory.users set email = 'x'",
    'delete from sallyport_directory.users',
    'insert into sallyport_directory.external_ids (kind, external_id) values ($$user$$, $$x$$)',
  ])
    await t.rejects(own.query(sql), { code: '42501' }, sql)
  const vocabulary = { roles: new Set(['org-owner', 'org-admin', 'org-member']), resources: [] }
  const { problems } = await checkDirectory({ url: gatewayUrl, vocabulary, triesWrites: true, timeoutMs: 10_000 })
  t.same(problems, [])
})

async function adoptTables(t: Test, name: string, sql: string): Promise<pg.Client> {
  const url = new URL(databaseUrl)
  url.pathname = `/${name}`
  await backend.query(`create database ${name}`)
  await migrate(url.href, { adopt: true })
  const client = new pg.Client({ connectionString: url.href })
  await client.connect()
  t.teardown(() => client.end())
  await client.query(sql)
  return client
}

const viewsOf = `
  create view sallyport_directory.users as select id, email from people;
  create view sallyport_directory.role_assignments as
    select id, person as user_id, null::integer as organization_id, role from grants`

t.test('an identity that names an integer is never taken for a number', async (t) => {
  const client = await adoptTables(
    t,
    'before',
    `create table people (id bigint primary key, email text); insert into people values (7, 'a@x.example');
      create table grants (id serial primary key, person bigint, role text); ${viewsOf};
      insert into sallyport_directory.user_identities (user_id, issuer, subject) values (7, 'i', 's')`,
  )
  const watch = () => client.query("call sallyport_directory.watch('people', '{user:id}')")
  await t.rejects(watch(), /names users by other integers/)
  await t.rejects(client.query('call sallyport_directory.number_views()'), /no table numbers the ids of .*users/)
  await client.query('delete from sallyport_directory.user_identities')
  await watch()
  await client.query('call sallyport_directory.number_views()')
  t.match((await client.query('select id, external_id from sallyport_directory.users')).rows, [{ external_id: '7' }])
})

t.test('a small column that refers to a numbered key is numbered as well', async (t) => {
  const client = await adoptTables(
    t,
    'narrow',
    `create table people (id bigint primary key, email text);
      create table grants (id serial primary key, person integer, role text); ${viewsOf};
      call sallyport_directory.watch('people', '{user:id}'); call sallyport_directory.watch('grants', '{user:person}');
      call sallyport_directory.number_views();
      insert into people values (2, 'second@x.example'); insert into people values (1, 'first@x.example');
      insert into grants (person, role) values (1, 'admin')`,
  )
  const { rows: holders } = await client.query(
    `select u.external_id, u.email from sallyport_directory.role_assignments r
      join sallyport_directory.users u on u.id = r.user_id`,
  )
  t.same(holders, [{ external_id: '1', email: 'first@x.example' }])
})

const keyDefaults = { bigint: '7', uuid: 'gen_random_uuid()' } as const

t.test('keys of another type than before get numbers of their own, and the old ones stop no question', async (t) => {
  for (const [was, now] of [
    ['bigint', 'uuid'],
    ['uuid', 'bigint'],
  ] as const) {
    const client = await adoptTables(
      t,
      `retyped_${now}`,
      `create table people (id ${was} primary key default ${keyDefaults[was]}, email text);
        insert into people (email) values ('a@x.example');
        create table grants (id serial primary key, person ${was}, role text); ${viewsOf};
        call sallyport_directory.watch('people', '{user:id}'); call sallyport_directory.watch('grants', '{user:person}');
        call sallyport_directory.number_views();
        drop view sallyport_directory.users, sallyport_directory.role_assignments,
          sallyport_directory.external_users, sallyport_directory.external_role_assignments;
        alter table people drop column id;
        alter table people add column id ${now} primary key default ${keyDefaults[now]};
        alter table grants drop column person; alter table grants add column person ${now}; ${viewsOf};
        call sallyport_directory.watch('people', '{user:id}'); call sallyport_directory.watch('grants', '{user:person}');
        call sallyport_directory.number_views(); set enable_indexscan = off; set enable_bitmapscan = off`,
    )
    const joins = ['nestloop', 'mergejoin', 'hashjoin']
    for (const join of joins) {
      for (const other of joins) await client.query(`set enable_${other} = ${other === join ? 'on' : 'off'}`)
      const { rows: people } = await client.query('select id, external_id from sallyport_directory.users')
      t.equal(people.length, 1)
      t.match(people[0].external_id, now === 'uuid' ? /^[0-9a-f-]{36}$/ : /^7$/)
      t.ok(people[0].id > 1)
    }
  }
})

t.test('a column that turns into no integer fails no write, and takes no number from the keys beside it', async (t) => {
  const client = await adoptTables(
    t,
    'turned',
    `create table people (id bigint primary key, email text);
      create table grants (id serial primary key, person bigint, org integer, role text); ${viewsOf};
      call sallyport_directory.watch('people', '{user:id}');
      call sallyport_directory.watch('grants', '{user:person,members:org}');
      call sallyport_directory.number_views();
      alter table grants alter org type uuid using null; listen sallyport_changes`,
  )
  const told: string[] = []
  const warned: string[] = []
  client.on('notification', ({ payload = '' }) => told.push(payload))
  client.on('notice', ({ message }) => warned.push(message ?? ''))
  await client.query("insert into grants (person, org, role) values (7, gen_random_uuid(), 'admin')")
  await until(() => told.length > 0, 'the notification')
  t.same([told, warned], [['{"kind":"everything"}'], []])
  const numbered = await client.query('select kind, external_id from sallyport_directory.external_ids')
  t.same(numbered.rows, [{ kind: 'user', external_id: '7' }])
  await t.rejects(
    client.query("call sallyport_directory.watch('grants', '{user:person,members:org}')"),
    /column org of table public\.grants is no integer/,
  )
})

t.test('a role of integer keys is told by its user alone', async (t) => {
  const client = await adoptTables(
    t,
    'plain',
    `create table people (id integer primary key, email text);
      create table grants (id serial primary key, person integer, role text); ${viewsOf};
      call sallyport_directory.watch('grants', '{role_assignment:id,user:person}');
      call sallyport_directory.number_views(); listen sallyport_changes`,
  )
  const told: string[] = []
  client.on('notification', ({ payload = '' }) => told.push(payload))
  await client.query("insert into grants (person, role) values (7, 'admin')")
  await until(() => told.length > 0, 'the notification')
  t.same(
    told.map((payload) => JSON.parse(payload)),
    [{ kind: 'user', id: 7 }],
  )
  t.equal((await client.query('select from sallyport_directory.external_ids')).rowCount, 0)
})
