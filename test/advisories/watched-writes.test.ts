import pg from 'pg'
import t, { type Test } from 'tap'
import { parseChanges } from '../../gateway/directory/change.ts'
import { listenToPostgres } from '../../gateway/directory/postgres/change-listener.ts'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import { until } from '../support/gateway.ts'
import { startTestPostgres } from '../support/world.ts'

// A trigger that read records as JSON failed each statement over a tenant's record that jsonb refuses, or left it without a number.

// The smallest queue that PostgreSQL allows: 512 KiB.
const server = await startTestPostgres({
  settings: ['max_notify_queue_pages=64', 'max_prepared_transactions=2', 'track_functions=all'],
})
t.teardown(() => server.stop())

async function connect(t: Test, database: string): Promise<pg.Client> {
  const url = new URL(server.url)
  url.pathname = `/${database}`
  const client = new pg.Client({ connectionString: url.href })
  await client.connect()
  t.teardown(() => client.end())
  return client
}

const urlOf = (database: string): string => Object.assign(new URL(server.url), { pathname: `/${database}` }).href

async function createDatabase(t: Test, database: string): Promise<pg.Client> {
  const administrator = await connect(t, 'postgres')
  await administrator.query(`create database ${database}`)
  return connect(t, database)
}

/** Notifications and warnings of a statement. */
async function followChanges(client: pg.Client) {
  const heard: string[] = []
  const warned: string[] = []
  client.on('notification', ({ payload = '' }) =>
    heard.push(
      ...parseChanges(payload).map((change) => ('id' in change ? `${change.kind}:${change.id}` : change.kind)),
    ),
  )
  client.on('notice', ({ message }) => warned.push(message ?? ''))
  await client.query('listen sallyport_changes')
  const tell = async (sql: string): Promise<readonly string[]> => {
    heard.length = 0
    await client.query(sql)
    await client.query('')
    return [...heard].sort()
  }
  return { tell, warned }
}

const keys = {
  bigint: ['1', '2', '3'],
  uuid: [1, 2, 3].map((n) => `00000000-0000-4000-8000-00000000000${n}`),
} as const

const mapUsers = `create view sallyport_directory.users as select id, 'a' as email from rows;
  call sallyport_directory.watch('rows', '{user:id}', '{ignored}')`

const hostile = [
  ['json', '\'"\\u0000"\''],
  ['json', '\'"\\ud800"\''],
  ['json', "'1e400000'"],
  ['json', '\'{"a":1,"a":1e400000}\''],
  ['json[]', "array['1e400000'::json]"],
  ['text', "repeat('x', 2000000)"],
  ['float8', "'nan'"],
  ['numeric', "'infinity'"],
  ['timestamptz', "'-infinity'"],
] as const

for (const [type, [first, second, third]] of Object.entries(keys))
  t.test(
    `values that JSON refuses fail no statement, and each record is named, with keys of type ${type}`,
    async (t) => {
      const client = await createDatabase(t, `hostile_${type}`)
      await migrate(urlOf(`hostile_${type}`), { adopt: true })
      const columns = hostile.map(([type], index) => `c${index} ${type}`).join(', ')
      await client.query(`create table rows (id ${type} primary key, ignored json, name text, is_bulk json, total text, is_known text,
      keys text, kind text, r text, ${columns}); ${mapUsers}`)
      const { tell, warned } = await followChanges(client)
      const known = new Map<string, number>()
      const number = async (key: string | undefined): Promise<string> => {
        const { rows } = await client.query(
          `select id from sallyport_directory.external_ids where kind = 'user' and external_id = $1`,
          [key],
        )
        known.set(key ?? '', rows[0]?.id)
        return `user:${rows[0]?.id}`
      }
      await client.query(`insert into rows (id) values ('${third}')`)
      for (const [index, [, value]] of hostile.entries()) {
        const told = await tell(`insert into rows (id, ignored, c${index}) values
        ('${first}', '1e400000', ${value}), ('${second}', null, null)`)
        const both = [await number(first), await number(second)].sort()
        t.same(told, both, value)
        t.same(await tell(`update rows set name = 'a', c${index} = ${value}`), [...both, await number(third)].sort())
        t.same(await tell(`update rows set name = name, c${index} = ${value}`), [], 'nothing has changed')
        t.same(await tell(`update rows set ignored = '"\\u0000"'`), [], 'nothing that counts has changed')
        t.same(await tell(`update rows set c${index} = null where id = '${first}'`), [await number(first)])
        t.same(await tell(`delete from rows where id <> '${third}'`), both)
        await client.query('update rows set name = null, ignored = null')
      }
      t.same(warned, [])
    },
  )

t.test('a column of every type takes part, and fails nothing', async (t) => {
  const client = await createDatabase(t, 'types')
  await migrate(urlOf('types'), { adopt: true })
  // Of each type one value that it reads, of a few texts; an array holds one of its elements.
  const { rows } = await client
    .query<{ type: string }>(`
    create type mood as enum ('t', '1'); create type pair as (a json, b text); create domain short as text check (value <> 'b');
    create type span as range (subtype = float8);
    create function can_hold(type text, value text) returns boolean language plpgsql as $$
    begin
      execute format('create temporary table tried as select %L::%s as c', value, type);
      drop table tried;
      return true;
    exception when others then
      return false;
    end $$;
    select format_type(oid, null) as type from pg_type
    where typtype in ('b', 'e', 'd', 'r', 'm', 'c') and typisdefined and (typrelid = 0 or typname = 'pair')
      and oid not in (select typarray from pg_type where typtype = 'c' and typname <> 'pair') and can_hold(format_type(oid, null), null)
    order by 1`)
    .then((results) => (results as unknown as { rows: { type: string }[] }[]).at(-1) ?? { rows: [] })
  const samples = [
    ...[
      '1',
      't',
      '{}',
      '(1,1)',
      '[1,2)',
      'empty',
      '2020-01-01',
      '1 day',
      '10.0.0.1',
      '08:00:2b:01:02:03',
      '<a/>',
      '1,1',
    ],
    ...['08:00:2b:01:02:03:04:05', '00000000-0000-4000-8000-000000000001', '((0,0),(1,1))', '{1,2,3}', '<(1,1),1>'],
    ...['[(1,1),(2,2)]', '0/0', '1:2:', '"a"', '12:00', '($.a)', 'pg_class', 'pg_catalog', 'english', 'simple', 'int4'],
    ...[
      'abs(integer)',
      '+(integer,integer)',
      'now',
      'btree',
      '=r/postgres',
      'postgres',
      '(,)',
      '{t}',
      '{"(1,1)"}',
      '{a}',
    ],
  ]
  const { rows: held } = await client.query<{ type: string; value: string | null }>(
    `select type, (select value from unnest($2::text[]) as value where can_hold(type, value) limit 1) as value
      from unnest($1::text[]) as type`,
    [rows.map(({ type }) => type), samples],
  )
  const empty = held.filter(({ value }) => value === null).map(({ type }) => type)
  t.ok(held.length > 170, `${held.length} types`)
  t.comment(`null alone: ${empty.join(', ')}`)
  t.ok(empty.length < 25, 'nearly all have a value')
  const columns = held.map(({ type }, index) => `c${index} ${type}`).join(', ')
  await client.query(`create table rows (id bigint primary key, ignored integer, ${columns});
    call sallyport_directory.watch('rows', '{user:id}', '{ignored}')`)
  const { tell, warned } = await followChanges(client)
  t.same(await tell('insert into rows (id) values (1)'), ['user:1'])
  for (const [index, { type, value }] of held.entries()) {
    if (value === null) continue
    const set = `update rows set c${index} = '${value}'`
    t.same([await tell(set), await tell(set)], [['user:1'], []], type)
    t.same([await tell('update rows set ignored = 1')], [[]], type)
  }
  t.same(await tell('delete from rows'), ['user:1'])
  t.same(warned, [])
})

t.test('a trigger that fails says so, and every replica forgets everything', async (t) => {
  const client = await createDatabase(t, 'failing')
  await migrate(urlOf('failing'), { adopt: true })
  await client.query(`create table rows (id bigint primary key, ignored integer, name text);
    call sallyport_directory.watch('rows', '{user:id}', '{ignored}'); alter table rows rename name to title`)
  const { tell, warned } = await followChanges(client)
  t.same(await tell('insert into rows values (1)'), ['user:1'])
  t.same(await tell('update rows set ignored = 2'), ['everything'])
  t.same(warned, ['sallyport: a change of table public.rows could not be named (42703)'])
  await client.query("call sallyport_directory.watch('rows', '{user:id}', '{ignored}')")
  t.same(await tell('update rows set ignored = 3'), [])
  await client.query('alter table rows add later text')
  t.same(await tell('update rows set ignored = 4'), ['user:1'], 'a column that came later may have changed')
  await client.query(
    'alter table rows drop constraint rows_pkey; insert into rows select 1 from generate_series(1, 2000)',
  )
  await client.query("call sallyport_directory.watch('rows', '{user:id}', '{ignored}')")
  t.same(await tell('update rows set ignored = 5'), ['user:1'], 'without a key each row counts, and meets no other')
})

t.test('large values that count are not read in a large statement', async (t) => {
  const client = await createDatabase(t, 'wide')
  await migrate(urlOf('wide'), { adopt: true })
  await client.query(`create table rows (id bigint primary key, ignored integer, wide text);
    call sallyport_directory.watch('rows', '{user:id}', '{ignored}');
    insert into rows select n, 0, repeat('x', case when n = 1 then 60000 else 9 end) from generate_series(1, 200) as n`)
  const { tell } = await followChanges(client)
  t.same(await tell('update rows set ignored = 1 where id < 100'), [])
  t.same(await tell('update rows set ignored = 2'), ['user:1'])
})

t.test('no function is called for each record of a statement', async (t) => {
  const client = await createDatabase(t, 'calls')
  await migrate(urlOf('calls'), { adopt: true })
  await client.query(`create table rows (id uuid primary key, ignored integer, name text); ${mapUsers}`)
  const countCalls = async (): Promise<number> => {
    // The counts of a transaction are sent at its end.
    await client.query('select pg_stat_force_next_flush()')
    const { rows } = await client.query('select coalesce(sum(calls), 0)::integer as calls from pg_stat_user_functions')
    return rows[0].calls
  }
  const changes = [
    'insert into rows select gen_random_uuid(), 0 from generate_series(1, 1000)',
    "update rows set name = 'a'",
    'delete from rows',
  ]
  for (const sql of changes) {
    const before = await countCalls()
    await client.query(sql)
    t.equal((await countCalls()) - before, 1, `${sql} calls the trigger alone`)
  }
})

t.test('a full queue of notifications fails no commit, and is found within a second', async (t) => {
  const client = await createDatabase(t, 'queue')
  await migrate(urlOf('queue'), { adopt: true })
  await client.query(`create table rows (id bigint primary key); call sallyport_directory.watch('rows', '{user:id}');
    ${['users', 'role_assignments', 'organizations', 'auth_access_tokens'].map((name) => `create view sallyport_directory.${name} as select 1 as id;`).join('')}`)
  const states: string[] = []
  const source = listenToPostgres(
    {
      ...{ url: urlOf('queue'), connectTimeoutMs: 10_000, monotonicMs: () => performance.now() },
      servers: { noteListening: () => undefined, notePosition: () => undefined, wantsPositions: () => false },
    },
    {
      ...{ onChange: () => undefined, onConnected: () => undefined, onUnreadable: () => undefined },
      onSynced: () => void states.push('synced'),
      onLost: (error) => void states.push(String(error)),
    },
  )
  t.teardown(() => source.stop())
  await until(() => states.includes('synced'), 'the first synchronization')
  const blocker = await connect(t, 'queue')
  await blocker.query('listen other')
  await blocker.query('begin; select 1')
  for (let count = 0; count < 200; count++)
    await client.query(`insert into rows select n from generate_series(${count * 100}, ${count * 100 + 99}) as n`)
  const { rows } = await client.query(
    'select pg_notification_queue_usage() as usage, (select count(*) from rows) as rows',
  )
  t.ok(rows[0].usage > 0.7 && rows[0].usage < 0.95, `${rows[0].usage}`)
  t.equal(rows[0].rows, '20000')
  await until(() => states.some((state) => state.includes('% full')), 'the loss', 2_000)
  await client.query('notify other')
  await blocker.query('rollback')
  states.length = 0
  await until(() => states.includes('synced'), 'the end of the loss')
})

t.test('a column that a program added to a table of the gateway fails no statement', async (t) => {
  const client = await createDatabase(t, 'own')
  await migrate(urlOf('own'))
  await client.query('alter table users add extra json')
  const { tell, warned } = await followChanges(client)
  t.same(await tell("insert into users (email, user_type, extra) values ('a@x.example', 'human', '1e400000')"), [])
  t.same(await tell("update users set username = 'a'"), ['everything'])
  t.same(warned, ['sallyport: a change of table public.users could not be named (22003)'])
  t.same(await tell('update users set extra = null'), ['everything'])
  t.match(await tell("update users set username = 'b'"), [/^user:\d+$/])
})
