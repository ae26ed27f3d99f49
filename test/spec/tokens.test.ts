import pg from 'pg'
import t from 'tap'
import { parseApiToken } from '../../gateway/stages/authenticate/api-token.ts'
import type { Answer } from '../support/client.ts'
import { openRawClient, startTestGateway, until } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { owner, admin, member, outsider } = world.users
const { robot, robotAdmin } = world.serviceAccounts
const { acme, globex } = world.organizations

const database = new pg.Client({ connectionString: world.databaseUrl })
await database.connect()
t.teardown(() => database.end())

const tokensOf = (userId: number, organizationId = acme.id) => `/organizations/${organizationId}/users/${userId}/tokens`
type Credential = Record<string, string>
const mint = (body: unknown, credential: Credential = oauth(admin), path = tokensOf(robot.id)): Promise<Answer> =>
  world.call({
    method: 'POST',
    path,
    headers: { ...credential, 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
const get = (path: string, credential: Credential = oauth(admin)) => world.call({ path, headers: credential })
const revoke = (path: string, credential: Credential = oauth(admin)) =>
  world.call({ method: 'DELETE', path, headers: credential })

t.test('a mint answers 201 with the raw token, once, and says not to store it', async (t) => {
  const answer = await mint({ scope: 'api-key', name: 'ci' })
  t.equal(answer.status, 201)
  t.equal(answer.headers['cache-control'], 'no-store')
  const { data } = answer.json()
  t.match(data, { type: 'bearer', name: 'ci', lastUsedAt: null, expiresAt: null })
  t.same(Object.keys(data).sort(), [
    ...['abilities', 'createdAt', 'expiresAt', 'id', 'lastUsedAt', 'name', 'token', 'type'],
  ])
  t.equal(parseApiToken(data.token)?.id, data.id)
  t.equal((await get('/datasets', bearer(data.token))).status, 200, 'it works')
  const { text } = await get(tokensOf(robot.id))
  t.notOk(text.includes(data.token), 'no list repeats it')
  const secret = Buffer.from(String(data.token).split('.')[1] ?? '', 'base64url').toString()
  const { rows } = await database.query('select t::text as row from auth_access_tokens t')
  t.notOk(
    rows.some(({ row }) => row.includes(secret)),
    'only its hash is stored',
  )
})

const mintHead = (lines: string): string =>
  `POST ${tokensOf(robot.id)} HTTP/1.1\r\nHost: h\r\nx-oauth-access-token: ${admin.jwt}\r\n${lines}\r\n`

t.test('a mint asks for its body when it is allowed, and for no more than 64 KiB', async (t) => {
  const body = JSON.stringify({ scope: 'api-key', name: 'asked' })
  const client = await openRawClient(t, world.public)
  client.send(mintHead(`Expect: 100-continue\r\nContent-Length: ${body.length}\r\n`))
  t.equal(await client.until(/\r\n\r\n/), 'HTTP/1.1 100 Continue\r\n\r\n')
  client.send(body)
  t.match(await client.until(/"asked"/), /\r\n\r\nHTTP\/1\.1 201 /)

  const large = `{"scope":"api-key","name":"${'x'.repeat(64 * 1024)}"}`
  t.match((await mint(large)).json(), { success: false, error: { status: 413, code: 'body_too_large' } })
  const chunked = `${large.length.toString(16)}\r\n${large}\r\n0\r\n\r\n`
  t.match(await world.raw(mintHead('Transfer-Encoding: chunked\r\n') + chunked), /^HTTP\/1\.1 413 /)
  const refused = await world.raw(mintHead('Expect: 100-continue\r\nContent-Length: 65537\r\n'))
  t.match(refused, /^HTTP\/1\.1 413 [\s\S]*\r\nconnection: close\r\n/i)
})

t.test('a mint whose body falls silent is 408, and mints nothing', async (t) => {
  const gateway = await startTestGateway(t, { world, settings: { timeouts: { bodyIdleMs: 200 } } })
  const before = (await get(tokensOf(robot.id))).json().meta.total
  const client = await openRawClient(t, gateway.public)
  client.send(`${mintHead('Content-Length: 100\r\n')}{"scope":"api-key"}`)
  t.match(await client.until(/request_timeout/), /^HTTP\/1\.1 408 /)
  t.equal((await get(tokensOf(robot.id))).json().meta.total, before)
})

t.test('a caller that loses its right while it sends the body of a mint gets no token', async (t) => {
  const { id, token } = (await mint({ scope: 'api-secret' }, oauth(admin), tokensOf(robotAdmin.id))).json().data
  const before = (await get(tokensOf(robot.id))).json().meta.total
  const body = JSON.stringify({ scope: 'api-key', name: 'late' })
  const client = await openRawClient(t, world.public)
  const head = mintHead(`Expect: 100-continue\r\nContent-Length: ${body.length}\r\n`)
  client.send(head.replace(`x-oauth-access-token: ${admin.jwt}`, `Authorization: Bearer ${token}`))
  t.equal(await client.until(/\r\n\r\n/), 'HTTP/1.1 100 Continue\r\n\r\n')
  client.send(body.slice(0, -1))
  await database.query(`update auth_access_tokens set abilities = '["datasets:read"]' where id = $1`, [id])
  await until(async () => (await get(tokensOf(robot.id), bearer(token))).status === 403, 'the end of the right')
  client.send('}')
  t.match(await client.until(/"requestId"/), /\r\n\r\nHTTP\/1\.1 403 /)
  t.equal((await get(tokensOf(robot.id))).json().meta.total, before)
})

t.test('a scope’s abilities are the token’s: api-key cannot write, api-secret can', async (t) => {
  const key = (await mint({ scope: 'api-key' }, oauth(admin), tokensOf(robotAdmin.id))).json().data
  const secret = (await mint({ scope: 'api-secret' }, oauth(admin), tokensOf(robotAdmin.id))).json().data
  const write = (token: string) => world.call({ method: 'POST', path: '/datasets', headers: bearer(token), body: '{}' })
  t.equal((await write(key.token)).status, 403)
  t.equal((await write(secret.token)).status, 200)
  t.notOk(key.abilities.some((ability: string) => ability.endsWith(':write')))
  t.ok(secret.abilities.includes('tokens:manage'))
})

t.test('an expiry in the future is kept, and ends the token', async (t) => {
  // Long enough for a busy machine to mint and use it.
  const expiresAt = new Date(Date.now() + 4_000).toISOString()
  const { data } = (await mint({ scope: 'api-key', expiresAt })).json()
  t.equal(data.expiresAt, expiresAt)
  t.equal((await get('/datasets', bearer(data.token))).status, 200)
  await new Promise((resolve) => setTimeout(resolve, Date.parse(expiresAt) + 100 - Date.now()))
  t.equal((await get('/datasets', bearer(data.token))).status, 401)
})

t.test('validation failures are 422 with field and rule, all at once', async (t) => {
  const far = new Date(Date.now() + 86_400_000).toISOString()
  for (const [body, expected] of [
    [{}, [['scope', 'required']]],
    [{ scope: 'root' }, [['scope', 'enum']]],
    [{ scope: 7 }, [['scope', 'enum']]],
    [{ scope: 'api-key', name: 7 }, [['name', 'type']]],
    [{ scope: 'api-key', name: 'x'.repeat(256) }, [['name', 'maxLength']]],
    [{ scope: 'api-key', expiresAt: 7 }, [['expiresAt', 'type']]],
    [{ scope: 'api-key', expiresAt: 'tomorrow' }, [['expiresAt', 'date']]],
    [{ scope: 'api-key', expiresAt: '2999-02-30T00:00:00Z' }, [['expiresAt', 'date']]],
    [{ scope: 'api-key', expiresAt: '2020-01-01T00:00:00Z' }, [['expiresAt', 'future']]],
    [{ scope: 'api-key', abilities: ['*'] }, [['abilities', 'unknown']]],
    [
      { scope: 'x', name: 7, expiresAt: far },
      [
        ['name', 'type'],
        ['scope', 'enum'],
      ],
    ],
    [[], [['', 'type']]],
    ['"text"', [['', 'type']]],
  ] as const) {
    const answer = await mint(body)
    t.equal(answer.status, 422, JSON.stringify(body))
    const { message, error } = answer.json()
    t.equal(message, 'Validation failure')
    t.equal(error.status, 422)
    t.same(
      error.messages.map(({ field, rule }: { field: string; rule: string }) => [field, rule]),
      expected,
      JSON.stringify(body),
    )
  }
})

t.test('a body that is not JSON is 400, an empty one too', async (t) => {
  t.equal((await mint('{"scope":')).status, 400)
  t.equal((await world.call({ method: 'POST', path: tokensOf(robot.id), headers: oauth(admin) })).status, 400)
})

t.test('a body that names a member twice is 400, and mints nothing', async (t) => {
  const count = async () => (await get(tokensOf(robot.id))).json().meta.total
  const before = await count()
  t.equal((await mint('{"scope":"api-secret","scope":"api-key"}')).status, 400)
  t.equal(await count(), before)
})

t.test('a human target is 422 clientManaged on mint, list and revoke', async (t) => {
  const path = tokensOf(member.id)
  for (const answer of [
    await mint({ scope: 'api-key' }, oauth(admin), path),
    await get(path),
    await revoke(`${path}/1`),
  ]) {
    t.equal(answer.status, 422)
    t.match(answer.json().error.messages, [{ field: 'userId', rule: 'clientManaged' }])
  }
})

t.test('a target that is not a member is 404, and a malformed id too', async (t) => {
  for (const id of [outsider.id, 999_999, 'x', '0', '01'])
    t.equal((await mint({ scope: 'api-key' }, oauth(admin), tokensOf(id as number))).status, 404, String(id))
})

t.test('role, ability, Enterprise and membership are asked for: else 403, before the body is looked at', async (t) => {
  for (const [name, credential, path] of [
    ['a member', oauth(member), tokensOf(robot.id)],
    ['an admin’s api-key', bearer(robotAdmin.apiKey), tokensOf(robot.id)],
    ['a team organization', oauth(outsider), tokensOf(robot.id, globex.id)],
    ['another organization', oauth(outsider), tokensOf(robot.id)],
  ] as const)
    t.equal((await mint('no json', credential, path)).status, 403, name)
  t.equal((await mint({ scope: 'api-key' }, bearer(robotAdmin.apiSecret))).status, 201, 'an admin’s api-secret may')
  t.equal((await mint({ scope: 'api-key' }, oauth(owner))).status, 201, 'an owner may')
})

t.test('lists are paginated, newest first, with expired tokens and never a secret', async (t) => {
  for (let index = 0; index < 3; index++) await mint({ scope: 'api-key', name: `n${index}` })
  const first = (await get(`${tokensOf(robot.id)}?perPage=2`)).json()
  t.same(
    first.data.map(({ name }: { name: string }) => name),
    ['n2', 'n1'],
  )
  t.match(first.meta, { currentPage: 1, perPage: 2, lastPage: Math.ceil(first.meta.total / 2) })
  const all = (await get(`${tokensOf(robot.id)}?perPage=100`)).json()
  t.equal(all.data.length, all.meta.total)
  t.ok(all.data.some(({ name }: { name: string }) => name === 'expired'))
  t.notOk(all.data.some((row: object) => 'token' in row || 'hash' in row))
  const beyond = await get(`${tokensOf(robot.id)}?page=1000`)
  t.same([beyond.status, beyond.json().data], [200, []])
  for (const query of ['page=0', 'page=x', 'page=1&page=2', 'perPage=101', 'perPage=0', 'perPage=1.5', 'page='])
    t.equal((await get(`${tokensOf(robot.id)}?${query}`)).status, 422, query)
})

t.test('an empty list has one page', async (t) => {
  const { rows } = await database.query(
    "insert into users (email, user_type) values ('empty@demo.example', 'client-managed') returning id",
  )
  await database.query("insert into role_assignments (user_id, organization_id, role) values ($1, $2, 'org-client')", [
    rows[0].id,
    acme.id,
  ])
  t.match((await get(tokensOf(rows[0].id))).json(), { meta: { total: 0, currentPage: 1, lastPage: 1 }, data: [] })
})

t.test('a revoked token is 401 from then on; revoking twice is 404, and another user’s too', async (t) => {
  const { data } = (await mint({ scope: 'api-key', name: 'short' })).json()
  t.equal((await revoke(`${tokensOf(robotAdmin.id)}/${data.id}`)).status, 404)
  const answer = await revoke(`${tokensOf(robot.id)}/${data.id}`)
  t.equal(answer.status, 200)
  t.match(answer.json().data, { id: data.id, name: 'short' })
  t.equal((await get('/datasets', bearer(data.token))).status, 401)
  t.equal((await revoke(`${tokensOf(robot.id)}/${data.id}`)).status, 404)
})

t.test('mint, revoke and switch write an audit event each, with actor, target and address but no secret', async (t) => {
  await database.query('delete from audit_events')
  const headers = { ...oauth(admin), 'x-request-id': 'audited' }
  const { data } = (await mint({ scope: 'api-key' }, headers)).json()
  await revoke(`${tokensOf(robot.id)}/${data.id}`, headers)
  await world.call({ method: 'POST', path: `/organizations/${acme.id}/switch`, headers })
  const { rows } = await database.query('select * from audit_events order by id')
  t.match(rows, [
    { action: 'token.minted', subject_id: robot.id, token_id: data.id },
    { action: 'token.revoked', subject_id: robot.id, token_id: data.id },
    { action: 'organization.switched', subject_id: admin.id, token_id: null },
  ])
  for (const row of rows)
    t.match(row, {
      actor_id: admin.id,
      credential: 'oauth',
      organization_id: acme.id,
      client_address: '127.0.0.1',
      request_id: 'audited',
    })
  t.notOk(JSON.stringify(rows).includes(data.token.slice(8)))
})

t.test('a refused change leaves no audit event', async (t) => {
  await database.query('delete from audit_events')
  await mint({ scope: 'root' })
  await mint({ scope: 'api-key' }, oauth(member))
  await revoke(`${tokensOf(robot.id)}/2147483647`)
  t.equal((await database.query('select from audit_events')).rowCount, 0)
})
