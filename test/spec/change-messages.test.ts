import pg from 'pg'
import t from 'tap'
import { type Change, parseChanges } from '../../gateway/directory/change.ts'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import { startTestDatabase } from '../support/world.ts'

const databaseUrl = await startTestDatabase(t)
await migrate(databaseUrl)

const connect = async (): Promise<pg.Client> => {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  t.teardown(() => client.end())
  return client
}
const [writer, listener] = [await connect(), await connect()]
const heard: string[] = []
const name = (change: Change): string => ('id' in change ? `${change.kind}:${change.id}` : change.kind)
listener.on('notification', ({ payload = '' }) => heard.push(...parseChanges(payload).map(name)))
await listener.query('listen sallyport_changes')

async function tell(sql: string): Promise<readonly string[]> {
  heard.length = 0
  await writer.query(sql)
  await listener.query('')
  return [...heard].sort()
}

await tell(`
  insert into organizations (name, slug) select n, n from unnest(array['a', 'b', 'c']) n;
  insert into users (email, user_type) select n || '@demo.example', 'human' from generate_series(1, 500) n;
  insert into user_identities (user_id, issuer, subject) select id, 'i', id from users;
  insert into auth_access_tokens (tokenable_id, type, hash, abilities) select id, 't', 'h', '[]' from users;
  insert into role_assignments (user_id, organization_id, role) values (1, 1, 'x'), (2, 1, 'x'), (3, 2, 'x');
  insert into role_assignments (user_id, organization_id, role) values (4, null, 'x');
  insert into agents (organization_id, name) values (1, 'a'), (2, 'b');
  insert into clusters (organization_id, name, slug, base_url, last_heartbeat_at)
    values (1, 'a', 'a', 'http://a', now()), (2, 'b', 'b', 'http://b', null)`)

const statements: readonly (readonly [sql: string, told: readonly string[]])[] = [
  // Both owners, if a membership moves from one to the other.
  [
    'update role_assignments set user_id = 5, organization_id = 3 where user_id = 2',
    ['members:1', 'members:3', 'user:2', 'user:5'],
  ],
  [
    'update user_identities set user_id = case user_id when 1 then 2 else 1 end where user_id in (1, 2)',
    ['user:1', 'user:2'],
  ],
  ['update auth_access_tokens set id = 1000 where id = 7', ['token:1000', 'token:7']],
  ['update auth_access_tokens set tokenable_id = 8 where id = 6', ['token:6']],
  // A platform role has no organization.
  ['update role_assignments set organization_id = 3 where user_id = 4', ['members:3', 'user:4']],
  ['update role_assignments set organization_id = null where user_id = 4', ['members:3', 'user:4']],
  // An update to equal values, or of columns that decide nothing, is not a change.
  ['update users set email = email, updated_at = now()', []],
  ['update auth_access_tokens set last_used_at = now(), updated_at = now()', []],
  [
    'update auth_access_tokens set last_used_at = now(), abilities = \'["x"]\' where id in (1, 2)',
    ['token:1', 'token:2'],
  ],
  ["update clusters set last_heartbeat_at = now() + interval '1 second'", []],
  ["update clusters set last_heartbeat_at = now() - interval '1 second' where id = 1", ['cluster:1']],
  ['update clusters set last_heartbeat_at = null where id = 2', ['cluster:2']],
  // One of many written entries.
  ["update users set email = case id when 9 then 'z' else email end", ['user:9']],
  // Several tables in one statement, several statements in a transaction, and a rollback.
  [
    `with gone as (delete from role_assignments where user_id = 3 returning user_id),
      new as (insert into organizations (name, slug) values ('d', 'd'))
      update users set email = 'y' where id in (select user_id from gone)`,
    ['members:2', 'organization:4', 'user:3'],
  ],
  [
    "begin; update users set email = 'b1' where id = 1; update agents set is_public = true where id = 1; commit",
    ['agent:1', 'user:1'],
  ],
  ["begin; update users set email = 'b2' where id = 1; rollback", []],
  [
    "insert into role_assignments (user_id, organization_id, role) values (1, 1, 'y'), (6, 1, 'y') on conflict (user_id, organization_id) do update set role = excluded.role",
    ['members:1', 'user:1', 'user:6'],
  ],
  // Cascades and triggers of the database.
  ['update users set current_organization_id = 2 where id = 2', ['user:2']],
  ['delete from organizations where id = 2', ['agent:2', 'cluster:2', 'organization:2', 'user:2']],
  ['delete from users where id = 1', ['members:1', 'token:1', 'user:1']],
  // From a hundred changes on their ids come in lists.
  [
    "update users set email = email || 'x' where id > 400",
    Array.from({ length: 100 }, (_, index) => `user:${401 + index}`),
  ],
  [
    "update users set email = email || 'x' where id >= 400",
    Array.from({ length: 101 }, (_, index) => `user:${400 + index}`),
  ],
  [
    'delete from auth_access_tokens where id between 200 and 299',
    Array.from({ length: 100 }, (_, index) => `token:${200 + index}`),
  ],
  [
    'delete from auth_access_tokens where id between 300 and 400',
    Array.from({ length: 101 }, (_, index) => `token:${300 + index}`),
  ],
  [
    "insert into role_assignments (user_id, role) select id, 'z' from users where id > 399",
    Array.from({ length: 101 }, (_, index) => `user:${400 + index}`),
  ],
  ['truncate agents cascade', ['everything']],
  ['truncate organizations cascade', ['everything']],
]

t.test('every change names all entries that read otherwise, and no other', async (t) => {
  for (const [sql, told] of statements) t.same(await tell(sql), [...told].sort(), sql)
})

t.test('a search path or temporary tables do not interfere', async (t) => {
  await writer.query(`
    insert into users (email, user_type) values ('a', 'human'), ('b', 'human');
    create schema other; create function other.pg_notify(text, text) returns void language sql as 'select';
    create temporary table after_rows (id integer); create temporary table before_rows (id integer)`)
  const { rows } = await writer.query<{ id: number }>('select id from users order by id limit 1')
  const told = await tell(
    `set search_path = other, pg_catalog, public; update users set email = 'c' where id = ${rows[0]?.id}`,
  )
  t.same(told, [`user:${rows[0]?.id}`])
})

t.test('an id of another kind never fails the statement', async (t) => {
  await writer.query(`create table public.things (id bigint, owner text);
    create trigger things after insert on public.things referencing new table as after_rows for each statement
      execute function public.sallyport_announce_changes('{user:owner}', '{}')`)
  t.same(await tell("insert into public.things values (1, '7')"), ['user:7'])
  t.same(await tell("insert into public.things values (2, '9000000000')"), ['user:9000000000'])
  for (const owner of ['9223372036854775807', 'a2b9e0f0-0000-4000-8000-000000000000', '1.5', ''])
    t.same(await tell(`insert into public.things values (3, '${owner}')`), ['everything'], owner)
  t.same(await tell('insert into public.things values (4, null)'), [])
})
