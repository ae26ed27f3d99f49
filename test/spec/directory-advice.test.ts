import { randomBytes } from 'node:crypto'
import pg from 'pg'
import t, { type Test } from 'tap'
import { checkDirectory } from '../../gateway/directory/postgres/check/check-directory.ts'
import { migrate } from '../../gateway/directory/postgres/migrate.ts'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { readExample } from '../support/adonis/adopted.ts'
import { firstOrganization, keyedTables } from '../support/adonis/keyed.ts'
import { backendTables } from '../support/adonis/tables.ts'
import { call } from '../support/client.ts'
import { startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { bearer, startTestPostgres } from '../support/world.ts'

const postgres = await startTestPostgres()
t.teardown(() => postgres.stop())
const administrator = new pg.Client({ connectionString: postgres.url })
await administrator.connect()
t.teardown(() => administrator.end())

/** The views of the documentation and the insert of users, without what has tables tell, numbers keys or grants rights. */
const viewsAlone = readExample('unused')
  .replace(/alter table sallyport_directory\.user_identities[^;]*;/, '')
  .replace(/^(?:call|grant)\b[^;]*;/gm, '')

const vocabulary = { roles: new Set(['org-owner', 'org-admin', 'org-member']), resources: [] }

/** Executes the advice of each check, as an operator would paste it, until the check is content. */
async function followAdvice(t: Test, backend: pg.Client, url: string): Promise<readonly string[]> {
  const followed: string[] = []
  for (let round = 0; round < 8; round += 1) {
    const { problems } = await checkDirectory({ url, vocabulary, triesWrites: true, timeoutMs: 20_000 })
    if (problems.length === 0) break
    const advice = problems.flatMap(({ help }) => /^(?:call|grant|create|alter) [^;]*;/.exec(help) ?? [])
    t.same(
      problems.filter(({ help }) => !help.includes(';')),
      [],
      'each has SQL',
    )
    for (const sql of new Set(advice)) await backend.query(sql)
    followed.push(...advice)
  }
  return followed
}

async function adoptByAdvice(t: Test, name: string, tables: string, organization: string): Promise<readonly string[]> {
  await administrator.query(`create database ${name}`)
  const url = new URL(postgres.url)
  url.pathname = `/${name}`
  await migrate(url.href, { adopt: true })
  const backend = new pg.Client({ connectionString: url.href })
  await backend.connect()
  t.teardown(() => backend.end())
  const role = `gateway_${randomBytes(4).toString('hex')}`
  const { secret, hash } = makeSecret((limit) => limit - 1)
  await backend.query(`create role ${role} login password 'x'; ${tables}; ${viewsAlone}
    drop index user_roles_user_id_idx;
    insert into organizations (name, slug, account_type, created_at) values ('Acme', 'acme', 'enterprise', now());
    insert into roles (name, slug) values ('Member', 'org-member');
    insert into users (email, password, user_type, created_at) values ('robot@acme.example', 'x', 'client-managed', now());
    insert into user_roles (user_id, role_id, organization_id) select id, 1, ${organization} from users;
    insert into data_clusters (organization_id, slug, url) values (${organization}, 'a', 'http://a.example');
    insert into auth_access_tokens (tokenable_id, type, hash, abilities)
      select id, 'auth_token', '${hash}', '["*"]' from users`)
  url.username = role
  url.password = 'x'
  const followed = await followAdvice(t, backend, url.href)
  const { problems } = await checkDirectory({ url: url.href, vocabulary, triesWrites: true, timeoutMs: 20_000 })
  t.same(problems, [])
  const upstream = await startRawUpstream(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
  })
  const gateway = await startTestGateway(t, {
    settings: { database: { url: url.href } },
    upstreams: { platform: { url: upstream.url } },
  })
  const answer = await call(gateway.public, { path: '/datasets', headers: bearer(formatToken(1, secret)) })
  t.equal(answer.status, 200, answer.text)
  return followed
}

t.test('the check’s own SQL leads a database with uuids from its views to a member’s 200', async (t) => {
  const followed = await adoptByAdvice(t, 'keyed', keyedTables, firstOrganization)
  t.ok(followed.includes('call sallyport_directory.number_views();'))
  t.ok(followed.includes("call sallyport_directory.watch('users', '{user:id}');"))
  t.ok(followed.includes("call sallyport_directory.watch('roles');"))
})

t.test('the check’s own SQL leads a database with integers from its views to a member’s 200', async (t) => {
  const followed = await adoptByAdvice(t, 'plain', backendTables, '1')
  t.notOk(followed.includes('call sallyport_directory.number_views();'))
})
