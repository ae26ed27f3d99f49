import pg from 'pg'
import t from 'tap'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import { adoptKeyedDatabase, firstOrganization } from '../support/adonis/keyed.ts'
import { startTestDatabase } from '../support/world.ts'

// PostgreSQL CVE-2007-2138: a function with its owner's rights took types and tables of its caller's temporary schema.

const databaseUrl = await startTestDatabase(t)
const { backend, gatewayUrl } = await adoptKeyedDatabase(
  t,
  databaseUrl,
  `insert into organizations (name, slug, account_type, created_at) values ('Acme', 'acme', 'enterprise', now());
    insert into users (email, password, created_at) values ('a@x.example', 'x', now())`,
)

async function disguiseTypes(own: pg.Client): Promise<readonly string[]> {
  const risen: string[] = []
  own.on('notice', ({ message }) => risen.push(message ?? ''))
  await own.query(`create function pg_temp.rise() returns boolean language plpgsql as $$
    begin
      raise warning 'with the rights of %', current_user;
      return true;
    end $$`)
  for (const type of ['text', 'jsonb', 'int4', 'int8', 'regclass', 'bool'])
    await own.query(`create domain pg_temp.${type} as pg_catalog.${type} check (pg_temp.rise())`)
  return risen
}

t.test('nothing of a session of the gateway’s role runs with the rights of the owner', async (t) => {
  const own = new pg.Client({ connectionString: gatewayUrl })
  await own.connect()
  t.teardown(() => own.end())
  const risen = await disguiseTypes(own)
  const numbers = 'select id from sallyport_directory.external_ids where kind = $1 order by id'
  const numberOf = async (kind: string): Promise<number> => (await backend.query(numbers, [kind])).rows[0]?.id
  const user = await numberOf('user')
  await own.query(
    `update sallyport_directory.users set current_organization_id = ${await numberOf('organization')} where id = ${user}`,
  )
  await own.query("insert into sallyport_directory.users (email, user_type) values ('b@x.example', 'human')")
  t.same(risen, [])
  const { rows } = await backend.query('select email, current_organization_id as at from users order by email')
  t.match(rows, [{ email: 'a@x.example', at: firstOrganization }, { email: 'b@x.example' }], 'and both were written')
})

t.test('each function with the rights of its owner looks into the temporary schema last', async (t) => {
  const { rows } = await backend.query<{ name: string; path: string }>(
    `select proname as name, array_to_string(proconfig, ' ') as path from pg_proc
      where pronamespace = 'sallyport_directory'::regnamespace and prosecdef order by 1`,
  )
  const path = 'search_path=pg_catalog, pg_temp'
  const tables = ['agents', 'data_clusters', 'organizations', 'user_roles', 'users'].map((name) => `changes_of_${name}`)
  t.same(
    rows,
    [...tables, 'create_user', 'note_removed_identities', 'write_numbered'].map((name) => ({ name, path })),
  )
})

t.test(
  'a trigger of the gateway lends a caller nothing where a function of a backend has its owner’s rights',
  async (t) => {
    const url = new URL(databaseUrl)
    url.pathname = '/ours'
    await backend.query('create database ours')
    await backend.query("create role caller login password 'x'")
    await migrate(url.href)
    const owner = new pg.Client({ connectionString: url.href })
    await owner.connect()
    t.teardown(() => owner.end())
    await owner.query(`insert into users (email, user_type) values ('a@x.example', 'human');
    create function rename_user() returns void language sql security definer set search_path = public, pg_temp
    as $$ update users set username = 'a' $$`)
    url.username = 'caller'
    url.password = 'x'
    const own = new pg.Client({ connectionString: url.href })
    await own.connect()
    t.teardown(() => own.end())
    const risen = await disguiseTypes(own)
    await own.query('select rename_user()')
    t.same(risen, [])
    t.equal((await owner.query("select from users where username = 'a'")).rowCount, 1)
  },
)
