import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import t, { type Test } from 'tap'
import { checkDirectory } from '../../gateway/directory/postgres/check/check-directory.ts'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import { generatePem } from '../../gateway/tools/cli/keys.ts'
import { adoptDatabase } from '../support/adonis/adopted.ts'
import { backendRows, backendTables } from '../support/adonis/tables.ts'
import { runCommand } from '../support/command-line.ts'
import { startTestPostgres } from '../support/world.ts'

const server = await startTestPostgres()
t.teardown(() => server.stop())
const administrator = new pg.Client({ connectionString: server.url })
await administrator.connect()
t.teardown(() => administrator.end())

const urlOf = (name: string, url = server.url): string => {
  const at = new URL(url)
  at.pathname = `/${name}`
  return at.href
}
let databases = 0
/** A copy of a database without connections. */
async function copy(template: string): Promise<string> {
  const name = `copy_${databases++}`
  await administrator.query(`create database ${name} template ${template} strategy file_copy`)
  return name
}
async function execute(name: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: urlOf(name) })
  await client.connect()
  await client.query(sql).finally(() => client.end())
}

await administrator.query('create database own; ')
await migrate(urlOf('own'))
await administrator.query('create database adopted')
await execute('adopted', `${backendTables}; ${backendRows}`)
const ends: (() => unknown)[] = []
const { gatewayUrl } = await adoptDatabase({ teardown: (end) => ends.push(end) }, urlOf('adopted'))
for (const end of ends) await end()

const vocabulary = { roles: new Set(['org-admin', 'org-member']), resources: [] }
const check = async (name: string, triesWrites = false) => {
  const { problems } = await checkDirectory({
    url: urlOf(name, gatewayUrl),
    vocabulary,
    triesWrites,
    timeoutMs: 10_000,
  })
  return problems.map(({ code, where }) => `${code} ${where}`)
}

t.test('nothing is wrong with a database that the migrations made', async (t) => {
  const report = await checkDirectory({ url: urlOf('own'), vocabulary, triesWrites: true, timeoutMs: 10_000 })
  t.same(report, { isAdopted: false, relations: 15, problems: [] })
})

t.test(
  'nothing is wrong with an adopted database that the example maps, for a role that has no other right',
  async (t) => {
    t.same(await check('adopted', true), [])
    const gateway = new pg.Client({ connectionString: urlOf('adopted', gatewayUrl) })
    await gateway.connect()
    t.teardown(() => gateway.end())
    for (const sql of [
      'select password from users',
      'select slug from organizations',
      "update sallyport_directory.users set email = 'x'",
      "update sallyport_directory.auth_access_tokens set abilities = '[]'",
      'delete from sallyport_directory.users',
      'delete from sallyport_directory.audit_events',
    ])
      await t.rejects(gateway.query(sql), { code: '42501' }, sql)
  },
)

t.test('tried writes are rolled back, and send no message', async (t) => {
  const listener = new pg.Client({ connectionString: urlOf('adopted') })
  await listener.connect()
  t.teardown(() => listener.end())
  const heard: string[] = []
  listener.on('notification', ({ payload = '' }) => heard.push(payload))
  await listener.query('listen sallyport_changes')
  const count = async () =>
    (
      await listener.query(`select (select count(*) from users) u, (select count(*) from auth_access_tokens) t,
        (select count(*) from sallyport_directory.audit_events) a, (select status from data_clusters) c`)
    ).rows
  const before = await count()
  t.same(await check('adopted', true), [])
  t.same(await count(), before)
  t.same(heard, [])
})

t.test('a role that may update the tables tries each trigger, and learns of changes that mean nothing', async (t) => {
  const name = await copy('adopted')
  await execute(
    name,
    `alter table user_roles rename role_id to kept_role;
      do $$ begin for n in 1..1000 loop update users set created_at = now() + n * interval '1 s'; end loop; end $$`,
  )
  await execute(name, 'select pg_stat_force_next_flush()')
  const listener = new pg.Client({ connectionString: urlOf(name) })
  await listener.connect()
  t.teardown(() => listener.end())
  const heard: string[] = []
  listener.on('notification', ({ payload = '' }) => heard.push(payload))
  await listener.query('listen sallyport_changes')
  const { problems } = await checkDirectory({ url: urlOf(name), vocabulary, triesWrites: true, timeoutMs: 10_000 })
  t.match(problems, [
    {
      ...{ severity: 'warning', code: 'failing-trigger', where: 'user_roles' },
      message: /^each update tells of everything: a change of table public\.user_roles could not be named/,
    },
    {
      ...{ severity: 'warning', code: 'frequent-changes', where: 'users' },
      message: 'is updated often, and tells of each change of created_at, which no view reads',
      help: /^call sallyport_directory\.watch\('users', '\{user:id\}', '\{password,updated_at,created_at\}', '\{.*\}'\);$/,
    },
  ])
  await execute(
    name,
    `${problems[1]?.help} call sallyport_directory.watch('user_roles', '{role_assignment:id,user:user_id,members:organization_id}')`,
  )
  const again = await checkDirectory({ url: urlOf(name), vocabulary, triesWrites: true, timeoutMs: 10_000 })
  t.same(again.problems, [])
  await listener.query('')
  t.same(
    heard.filter((payload) => payload !== '{"kind":"everything"}'),
    [],
  )
})

const view = (name: string): string => `sallyport_directory.${name}`
const withoutSearchIndex = 'drop index user_roles_user_id_idx'

const faults: readonly (readonly [title: string, sql: string, said: readonly string[], triesWrites?: true])[] = [
  ['no schema', 'drop schema sallyport_directory cascade', [`not-migrated sallyport_directory`]],
  [
    'no right to the schema',
    'revoke usage on schema sallyport_directory from :role',
    ['no-access sallyport_directory'],
  ],
  ['a missing view', `drop view ${view('agents')}`, [`missing-view ${view('agents')}`]],
  [
    'a missing column, and one of another type',
    `drop view ${view('agents')};
      create view ${view('agents')} as select id, visibility as is_public from agents;
      grant select on ${view('agents')} to :role`,
    [`missing-column ${view('agents.organization_id')}`, `wrong-type ${view('agents.is_public')}`],
  ],
  [
    'times without a zone, and ids that are too long',
    `drop view ${view('clusters')};
      create view ${view('clusters')} as select id::bigint, organization_id, slug, url as base_url, status,
        heartbeat_at at time zone 'UTC' as last_heartbeat_at from data_clusters;
      create function pass() returns trigger language plpgsql as 'begin return new; end';
      create trigger pass instead of update on ${view('clusters')} for each row execute function pass();
      grant select, update on ${view('clusters')} to :role`,
    [`wrong-type ${view('clusters.last_heartbeat_at')}`, `key-to-number ${view('clusters.id')}`],
  ],
  ['no right to read', `revoke select on ${view('organizations')} from :role`, manyColumns()],
  [
    'a view whose owner may not read',
    `create role nobody_:role; grant nobody_:role to current_user; grant create on schema sallyport_directory to nobody_:role;
      alter view ${view('agents')} owner to nobody_:role`,
    [`unreadable ${view('agents')}`],
  ],
  [
    'a cast that a row does not stand, and whose message would quote it',
    `drop view ${view('agents')}; create view ${view('agents')} as
      select id, visibility::integer as organization_id, true as is_public from agents;
      grant select on ${view('agents')} to :role`,
    [`unreadable ${view('agents')}`],
  ],
  ['no trigger', 'drop trigger sallyport_update on roles', ['silent-table roles']],
  ['a trigger that is off', 'alter table user_roles disable trigger sallyport_delete', ['silent-table user_roles']],
  [
    'a materialized view, which no trigger watches',
    `create materialized view copies as select * from agents; drop view ${view('agents')};
      create view ${view('agents')} as select id, organization_id, true as is_public from copies;
      create unique index on copies (id); create index on copies (organization_id); grant select on ${view('agents')} to :role`,
    ['silent-table copies'],
  ],
  ['no index', withoutSearchIndex, ['no-index public.user_roles']],
  ['no index for a list', 'drop index agents_organization_id_idx', ['no-index public.agents']],
  ['an unknown type of user', "update users set user_type = 'robot'", [`wrong-value ${view('users.user_type')}`]],
  [
    'an unknown role',
    "update roles set slug = 'x' where slug = 'org-admin'",
    [`unknown-role ${view('role_assignments.role')}`],
  ],
  [
    'two roles',
    'insert into user_roles (user_id, role_id, organization_id) values (1, 2, 1)',
    [`two-roles ${view('role_assignments')}`],
  ],
  [
    'tokens of another kind',
    "update auth_access_tokens set hash = 'x', abilities = '*'",
    [`wrong-value ${view('auth_access_tokens.hash')}`, `wrong-value ${view('auth_access_tokens.abilities')}`],
  ],
  [
    'a null where none may be',
    `drop view ${view('agents')};
      create view ${view('agents')} as select id, null::integer as organization_id, true as is_public from agents;
      grant select on ${view('agents')} to :role`,
    [`null-value ${view('agents.organization_id')}`],
  ],
  [
    'no right to write',
    `revoke insert on ${view('audit_events')} from :role`,
    [`not-writable ${view('audit_events')}`],
  ],
  [
    'a view that takes no writes',
    `drop trigger sallyport_create_user on ${view('users')}`,
    [`not-writable ${view('users')}`],
  ],
  [
    'a write that only shows when it is done',
    'alter table auth_access_tokens add column tenant integer not null default 1; alter table auth_access_tokens alter column tenant drop default',
    [`refused-write ${view('auth_access_tokens')}`],
    true,
  ],
  [
    'a sequence without a right to it',
    'revoke usage on sequence auth_access_tokens_id_seq from :role',
    [`refused-write ${view('auth_access_tokens')}`],
    true,
  ],
]

function manyColumns(): readonly string[] {
  const columns = `id name slug description logo_url website_url contact_email location company_size domain account_type
    is_verified created_at updated_at`
  return columns.split(/\s+/).map((column) => `no-access sallyport_directory.organizations.${column}`)
}

t.test('each fault is found, and nothing else is said', async (t) => {
  const role = new URL(gatewayUrl).username
  for (const [title, sql, said, triesWrites] of faults) {
    const name = await copy('adopted')
    await execute(name, sql.replaceAll(':role', role))
    t.same(await check(name, triesWrites), said, title)
  }
})

function writeInstallation(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const upstream = { url: 'http://127.0.0.1:1' }
  cpSync(fileURLToPath(new URL('../../policies', import.meta.url)), join(directory, 'policies'), {
    recursive: true,
    filter: (file) => !/(?:resources|objects)\.yaml$/.test(file),
  })
  writeFileSync(join(directory, 'identity.pem'), generatePem('EdDSA'), { mode: 0o600 })
  writeFileSync(
    join(directory, 'gateway.yaml'),
    JSON.stringify({
      database: { url: `\${DATABASE_URL}` },
      issuers: [{ issuer: 'http://127.0.0.1:1', audience: 'sallyport-demo' }],
      identity: { keys: ['file:identity.pem'] },
      upstreams: { platform: upstream, agents: upstream, files: upstream, graphql: upstream, data: upstream },
      policies: { directory: 'policies' },
    }),
  )
  return directory
}

t.test('an operator is led from another program’s tables to a directory that holds', async (t) => {
  await administrator.query('create database walk')
  await execute('walk', `${backendTables}; ${backendRows}`)
  const cwd = writeInstallation(t)
  const run = (...args: readonly string[]) =>
    runCommand([...args, '--config', 'gateway.yaml'], { cwd, env: { DATABASE_URL: urlOf('walk') } })

  const refused = await run('migrate')
  t.equal(refused.code, 1)
  t.match(refused.stderr, /tables of another program .*users.*migrate --adopt/)
  const unadopted = await run('directory', 'check')
  t.equal(unadopted.code, 1)
  t.match(unadopted.stdout, /error\[not-migrated\].*\n {2}help: run "sallyport migrate"/)

  const adopted = await run('migrate', '--adopt')
  t.equal(adopted.code, 0, adopted.stderr)
  t.match(adopted.stdout, /applied 100 .*\n(?:applied .*\n)*done\nnext: map the tables/)
  t.match(JSON.parse((await run('migrate', '--json')).stdout), { applied: [] }, 'it is remembered')

  const empty = await run('directory', 'check')
  t.equal(empty.code, 1)
  t.match(empty.stdout, /sallyport_directory\.users: error\[missing-view\]: does not exist\n {2}help: create view/)
  t.match(empty.stdout, /\n4 errors, 0 warnings\nnext: correct the first error/)

  ends.length = 0
  await adoptDatabase({ teardown: (end) => ends.push(end) }, urlOf('walk'))
  for (const end of ends) await end()
  const whole = await run('directory', 'check', '--try-writes')
  t.equal(whole.code, 0, whole.stdout + whole.stderr)
  t.match(whole.stdout, "15 relations over another program's tables match the gateway's needs")
  t.match(JSON.parse((await run('directory', 'check', '--json')).stdout), { isAdopted: true, problems: [] })
})

t.test('a database of the gateway’s own is not adopted over, and what it holds is never printed', async (t) => {
  const name = await copy('own')
  await t.rejects(migrate(urlOf(name), { adopt: true }), /the gateway's own/)
  await execute(
    name,
    `insert into users (email, user_type) values ('hush-hush@x.example', 'human');
      insert into organizations (name, slug) values ('hush-hush', 'hush-hush');
      create or replace view sallyport_directory.agents with (security_invoker) as
        select id, name::integer as organization_id, true as is_public from organizations;
      insert into auth_access_tokens (tokenable_id, type, hash, abilities) select id, 'auth_token', 'hush-hush', 'hush-hush' from users`,
  )
  const cwd = writeInstallation(t)
  const { code, stdout, stderr } = await runCommand(['directory', 'check', '-c', 'gateway.yaml', '--try-writes'], {
    cwd,
    env: { DATABASE_URL: urlOf(name) },
  })
  t.equal(code, 1)
  t.match(stdout, /auth_access_tokens\.abilities: error\[wrong-value\]/)
  t.notMatch(stdout + stderr, /hush-hush|postgres:/)
})
