import { createHash } from 'node:crypto'
import pg from 'pg'
import t, { type Test } from 'tap'
import { type MigrateOptions, migrate } from '../../gateway/directory/postgres/migrate.ts'
import { startTestDatabase } from '../support/world.ts'

type Printer = Readonly<{ printCatalog: (client: pg.Client) => Promise<string> }>

const { printCatalog }: Printer = await import(String(new URL('../../scripts/print-catalog.js', import.meta.url)))

const serverUrl = await startTestDatabase(t)

async function createDatabase(t: Test, name: string): Promise<Readonly<{ url: string; client: pg.Client }>> {
  const administrator = new pg.Client({ connectionString: serverUrl })
  await administrator.connect()
  await administrator.query(`create database ${name}`).finally(() => administrator.end())
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  const client = new pg.Client({ connectionString: url.href })
  await client.connect()
  t.teardown(() => client.end())
  return { url: url.href, client }
}

const roles = `do $$ begin create role catalog_writer; create role catalog_reader; exception when duplicate_object then end $$;
  alter default privileges grant insert on tables to catalog_writer;
  alter default privileges grant select on tables to catalog_reader`

/**
 * Digests of the catalogs that commit 4c320ffc made by thirty-six migrations, as PostgreSQL 18 prints them. A migration
 * after the baseline changes the digests that it means to change.
 */
const scenes: Readonly<Record<string, readonly [before: string, options: MigrateOptions, digest: string]>> = {
  'a database of the gateway': ['', {}, '3b028e7b57e05063985153e51655eef59d1d800012f418524b8bccba01d5c0b9'],
  'an adopted database': ['', { adopt: true }, '0024842a9ef1e092bcaca6417db0ce7a82a1c5dbf4dbf41077a5fa597e25d0de'],
  'a database of the gateway with rights by default': [
    roles,
    {},
    '7791d977f9357579d56859b8661c7471f2c197bed6b9ce7ad96dc1dac797216c',
  ],
  'an adopted database with rights by default': [
    roles,
    { adopt: true },
    'a74fef36d073a756391a325d48d43670700234d088ee455bc428ff741d48d1d3',
  ],
}

for (const [index, [what, [before, options, digest]]] of Object.entries(scenes).entries())
  t.test(`${what} has the catalog of the migrations before the baseline`, async (t) => {
    const { url, client } = await createDatabase(t, `catalog_${index}`)
    const { rows } = await client.query("select current_setting('server_version_num')::int / 10000 as major")
    t.equal(rows[0]?.major, 18, 'another major prints other words: renew the digests by it')
    await client.query(before)
    await migrate(url, options)
    const catalog = await printCatalog(client)
    t.equal(createHash('sha256').update(catalog).digest('hex'), digest)
  })

t.test('each difference is printed, and the ledger is not', async (t) => {
  const { url, client } = await createDatabase(t, 'catalog_changed')
  await migrate(url)
  let last = await printCatalog(client)
  t.equal(await printCatalog(client), last)
  t.notMatch(last, /sallyport_migrations/)
  for (const change of [
    'alter table users alter username set not null',
    "alter table users alter username set default 'a'",
    'alter table users add nickname text',
    'alter table users alter nickname type varchar(9)',
    "comment on column users.nickname is 'a'",
    'create index users_nickname on users (nickname)',
    'alter table users add constraint nicknamed check (nickname is not null) not valid',
    'alter table users validate constraint nicknamed',
    'grant select on users to public',
    'grant update (nickname) on users to public',
    'alter table users disable trigger sallyport_update',
    'drop trigger sallyport_update on users',
    'alter table users replica identity full',
    'alter table users enable row level security',
    'create policy mine on users using (true)',
    'create or replace view sallyport_directory.agents with (security_invoker) as select id, organization_id, is_public from agents',
    'alter view sallyport_directory.agents reset (security_invoker)',
    `create or replace function sallyport_doubt_email() returns trigger language plpgsql as 'begin return new; end'`,
    'alter function sallyport_doubt_email() security definer',
    'revoke execute on function sallyport_doubt_email() from public',
    'alter sequence users_id_seq increment 2',
    'alter sequence users_id_seq owned by none',
    'create type mood as enum ()',
    'create rule quiet as on delete to users do instead nothing',
  ]) {
    await client.query(change)
    const printed = await printCatalog(client)
    t.not(printed, last, change)
    last = printed
  }
})
