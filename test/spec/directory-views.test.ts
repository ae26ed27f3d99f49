import pg from 'pg'
import t from 'tap'
import { type Change, parseChanges } from '../../gateway/directory/change.ts'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import type { Statement } from '../../gateway/directory/postgres/pool.ts'
import { relations } from '../../gateway/directory/postgres/relations.ts'
import * as statements from '../../gateway/directory/postgres/statements.ts'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { call } from '../support/client.ts'
import { startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { bearer, startTestPostgres } from '../support/world.ts'

const server = await startTestPostgres()
t.teardown(() => server.stop())
const administrator = new pg.Client({ connectionString: server.url })
await administrator.connect()
t.teardown(() => administrator.end())

async function createDatabase(name: string): Promise<Readonly<{ url: string; client: pg.Client }>> {
  await administrator.query(`create database ${name}`)
  const url = new URL(server.url)
  url.pathname = `/${name}`
  const client = new pg.Client({ connectionString: url.href })
  await client.connect()
  t.teardown(() => client.end())
  return { url: url.href, client }
}

const all: readonly Statement[] = Object.values(statements)

t.test('the statements ask for nothing but what the list of relations names', async (t) => {
  const { client } = await createDatabase('listed')
  await client.query('create schema sallyport_directory')
  for (const { name, columns } of relations) {
    const list = Object.entries(columns).map(([column, type]) => `${column} ${type.replace('?', '')}`)
    await client.query(`create table sallyport_directory.${name} (${list.join(', ')})`)
  }
  await client.query(
    `create function sallyport_directory.verify_email(integer, text) returns boolean language sql as 'select true'`,
  )
  t.ok(all.length > 20)
  for (const { name, text } of all) await t.resolves(client.query(`prepare "${name}" as ${text}`), name)
})

t.test('a table that no relation names is not asked', async (t) => {
  for (const { name, text } of all) {
    const tables = [
      ...text.matchAll(
        /\b(?:from|join|into|update)\s+(?!unnest|lateral\b|before\b|line\b|descendants\b|gone\b)([\w.]+)/g,
      ),
    ].map(([, table]) => table)
    for (const table of tables) t.match(table, /^sallyport_directory\.\w+$/, name)
  }
})

type Cost = Readonly<{ total: number; nodes: readonly string[] }>
type Plan = Readonly<{ 'Node Type': string; 'Total Cost': number; 'Index Name'?: string; Plans?: readonly Plan[] }>

const listNodes = (plan: Plan): readonly string[] => [
  `${plan['Node Type']} ${plan['Index Name'] ?? ''}`.trim(),
  ...(plan.Plans ?? []).flatMap(listNodes),
]

t.test('through the views every question is planned as it would be on the tables, by their indexes', async (t) => {
  const { url, client } = await createDatabase('planned')
  await migrate(url)
  await client.query(`
    insert into organizations (name, slug) select n, n from generate_series(1, 5000) n;
    insert into users (email, user_type) select n || '@x.example', 'client-managed' from generate_series(1, 5000) n;
    insert into user_identities (user_id, issuer, subject) select id, 'i', id from users;
    insert into role_assignments (user_id, organization_id, role) select id, id, 'org-member' from users;
    insert into auth_access_tokens (tokenable_id, type, hash, abilities) select id, 'auth_token', 'h', '[]' from users;
    insert into token_parents (token_id, parent_id) select id, id - 1 from auth_access_tokens;
    insert into token_organizations (token_id, organization_id) select id, id from auth_access_tokens;
    set plan_cache_mode = force_generic_plan`)
  await client.query('analyze')
  const plan = async (name: string, text: string, values: string): Promise<Cost> => {
    await client.query(`prepare "${name}" as ${text}`)
    const { rows } = await client.query(`explain (format json) execute "${name}" (${values})`)
    await client.query(`deallocate "${name}"`)
    const root: Plan = rows[0]['QUERY PLAN'][0].Plan
    return { total: root['Total Cost'], nodes: listNodes(root) }
  }
  const questions: readonly (readonly [Statement, string])[] = [
    [statements.findToken, '1'],
    [statements.findTokenHashes, 'array[1, 2]'],
    [statements.findByIdentity, "'i', '1'"],
    [statements.findOrganization, '1'],
    [statements.findMember, '1, 1'],
    [statements.listTokens, '1, 20, 0, 1'],
    [statements.countTokens, '1, 1'],
    [statements.mintToken, "1, 'n', 'h', '[]', null"],
    [statements.revokeToken, '1, 1, 1'],
    [statements.switchOrganization, '1, 1'],
    [statements.noteTokenUses, 'array[1], array[now()]'],
  ]
  for (const [{ name, text }, values] of questions) {
    const throughViews = await plan(name, text, values)
    t.same(throughViews, await plan(name, text.replaceAll('sallyport_directory.', ''), values), name)
    if (name !== 'note-token-uses') t.notMatch(throughViews.nodes.join(), /Seq Scan/, name)
  }
  t.match((await plan('look', statements.findToken.text, '1')).nodes, /Index Scan auth_access_tokens_pkey/)
})

t.test('a role that was granted the tables of a database of the gateway alone serves through the views', async (t) => {
  const { url, client } = await createDatabase('granted')
  await migrate(url)
  const { secret, hash } = makeSecret((limit) => limit - 1)
  await client.query(`
    insert into organizations (name, slug, account_type) values ('Acme', 'acme', 'enterprise');
    insert into users (email, user_type) values ('robot@x.example', 'client-managed');
    insert into role_assignments (user_id, organization_id, role) values (1, 1, 'org-member');
    insert into auth_access_tokens (tokenable_id, type, hash, abilities) values (1, 'auth_token', '${hash}', '["*"]');
    create role granted_gateway login password 'x';
    grant select, insert, update, delete on all tables in schema public to granted_gateway;
    grant usage on all sequences in schema public to granted_gateway;
    create role granted_reader;
    grant select on users to granted_reader; grant granted_reader to current_user`)
  t.same((await migrate(url)).applied, [])
  // The views grant no right that the tables do not.
  await client.query('set role granted_reader')
  t.equal((await client.query('select id from sallyport_directory.users')).rowCount, 1)
  for (const sql of [
    'select hash from sallyport_directory.auth_access_tokens',
    "update sallyport_directory.users set email = 'x'",
  ])
    await t.rejects(client.query(sql), { code: '42501' }, sql)
  await client.query('reset role')

  const upstream = await startRawUpstream(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
  })
  const asGateway = new URL(url)
  asGateway.username = 'granted_gateway'
  asGateway.password = 'x'
  const gateway = await startTestGateway(t, {
    world: { databaseUrl: asGateway.href, oidc: { issuer: 'http://127.0.0.1:1', audience: 'a', mintUrl: '' } },
    upstreams: { platform: { url: upstream.url } },
  })
  const headers = bearer(formatToken(1, secret))
  const use = async () => (await call(gateway.public, { path: '/datasets', headers })).status
  t.equal(await use(), 200)
  const isHearing = async (): Promise<boolean> =>
    (await (await fetch(`${gateway.admin}/metrics`)).text()).includes(
      'sallyport_invalidation_source_up{source="postgres"} 1',
    )
  await until(isHearing, 'the connection for changes')
  t.equal(await use(), 200)
  // As the previous version of the gateway does, until it is replaced.
  await client.query('delete from auth_access_tokens')
  await until(async () => (await use()) === 401, 'the refusal')
})

t.test('a role that may not create schemas migrates, where an administrator has made it one', async (t) => {
  for (const adopt of [false, true]) {
    const role = `narrow_${adopt}`
    const { url, client } = await createDatabase(role)
    await client.query(`create role ${role} login password 'x'; grant create, usage on schema public to ${role}`)
    const narrow = new URL(url)
    narrow.username = role
    narrow.password = 'x'
    await t.rejects(migrate(narrow.href, { adopt }), { code: '42501' })
    await client.query(`grant ${role} to current_user; create schema sallyport_directory authorization ${role}`)
    t.ok((await migrate(narrow.href, { adopt })).applied.length > 0)
    t.same((await migrate(narrow.href)).applied, [])
  }
})

t.test('triggers of a watched table tell of changes that count, and fail no statement', async (t) => {
  const { url, client } = await createDatabase('watched')
  await client.query(`create table things (id bigint primary key, owner bigint, note text, name text);
    create table words (word text); create table ids (id uuid, owner text)`)
  await migrate(url, { adopt: true })
  const heard: string[] = []
  const name = (change: Change): string => ('id' in change ? `${change.kind}:${change.id}` : change.kind)
  client.on('notification', ({ payload = '' }) => heard.push(...parseChanges(payload).map(name)))
  await client.query('listen sallyport_changes')
  const tell = async (sql: string): Promise<readonly string[]> => {
    heard.length = 0
    await client.query(sql)
    await client.query('')
    return [...heard].sort()
  }
  await client.query("call sallyport_directory.watch('things', '{user:id,organization:owner}', '{note}')")
  await client.query("call sallyport_directory.watch('words')")
  const far = '9000000000'
  t.same(await tell(`insert into things values (1, 7, 'a', 'b'), (2, null, 'a', 'b'), (${far}, 7, 'a', 'b')`), [
    'organization:7',
    'user:1',
    'user:2',
    `user:${far}`,
  ])
  t.same(await tell("update things set note = 'other'"), [])
  t.same(await tell("update things set name = 'other', owner = 8 where id = 1"), [
    'organization:7',
    'organization:8',
    'user:1',
  ])
  t.same(await tell('delete from things where id = 2'), ['user:2'])
  t.same(await tell('truncate things'), ['everything'])
  t.same(await tell("insert into words values ('a')"), ['everything'])
  t.same(await tell("update words set word = 'b' where word = 'none'"), [])
  t.same(await tell("update words set word = 'c'"), ['everything'])
  t.same(await tell("delete from words where word = 'none'"), [])
  t.same(await tell("delete from words where word = 'c'"), ['everything'])
  await client.query("call sallyport_directory.watch('things', '{user:id}', '{}', '{delete}')")
  t.same(await tell("insert into things values (3, 7, 'a', 'b')"), [])
  t.same(await tell('delete from things where id = 3'), ['user:3'])
  await client.query("call sallyport_directory.watch('things', '{user:id,organization:owner}')")
  const widest = '9223372036854775807'
  t.same(
    await tell(`insert into things values (${widest}, 7, 'a', 'b')`),
    ['everything'],
    'no number of JSON is as large',
  )
  t.same(await tell(`update things set owner = 8 where id = ${widest}`), ['everything'])
  await client.query("delete from things; alter table things alter owner type uuid using md5('a')::uuid")
  t.same(await tell("insert into things values (4, md5('b')::uuid, 'a', 'b')"), ['everything'])
  await client.query("alter table things alter id type uuid using md5('c')::uuid")
  t.same(await tell("update things set owner = md5('d')::uuid"), ['everything'])
  t.same(await tell('delete from things'), ['everything'])
  await client.query('alter table things rename id to key; alter table things alter owner type bigint using 5')
  t.same(await tell("insert into things values (md5('e')::uuid, 7, 'a', 'b')"), ['everything'])
  t.same(await tell('update things set owner = 9'), ['everything'])
  await client.query('alter table things drop key; alter table things add id bigint')
  for (const call of [
    "'things', '{user:nobody}'",
    "'things', '{user:id}', '{nothing}'",
    "'words', '{user:word}'",
    "'ids', '{user:id}'",
  ])
    await t.rejects(client.query(`call sallyport_directory.watch(${call})`), /no column|no integer/, call)
  await client.query('drop schema sallyport_directory cascade')
  t.same(await tell("insert into words values ('a')"), [], 'and dropping the schema takes the triggers along')
})
