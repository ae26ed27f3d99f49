import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { startIssuer } from '../../demo/issuer.ts'
import { checkDirectory } from '../../gateway/directory/postgres/check/check-directory.ts'
import { adoptDatabase } from '../support/adonis/adopted.ts'
import { type Answer, type Call, call } from '../support/client.ts'
import { startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { bearer, startTestDatabase } from '../support/world.ts'
import { adonisLack, startAdonis } from './adonis/adonis.ts'
import { hashSecret } from './stored-tokens.ts'

testUnlessLacking(t, 'a backend in AdonisJS and a gateway on one database', testTogether, adonisLack)

/** The gateway sees the backend's changes within a second; the rest is for a busy machine. */
const boundMs = 2_000

async function testTogether(t: Test): Promise<void> {
  const databaseUrl = await startTestDatabase(t)
  const issuer = await startIssuer({ audience: 'sallyport-demo' })
  t.teardown(() => issuer.stop())
  const adonis = await startAdonis(t, databaseUrl)
  const { backend, gatewayUrl } = await adoptDatabase(t, databaseUrl)
  const upstream = await startRawUpstream(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
  })
  const gateway = await startTestGateway(t, {
    world: { databaseUrl: gatewayUrl, oidc: { issuer: issuer.issuer, audience: 'sallyport-demo', mintUrl: '' } },
    upstreams: { platform: { url: upstream.url } },
  })
  const send = (request: Call): Promise<Answer> => call(gateway.public, request)
  const use = async (token: string, method = 'GET'): Promise<number> =>
    (await send({ method, path: '/datasets', headers: bearer(token) })).status
  const login = async (sub: string, email: string): Promise<Record<string, string>> => ({
    'x-oauth-access-token': await issuer.mint({ sub, email }),
  })

  await backend.query(`
    insert into organizations (name, slug, account_type, created_at) values ('Acme', 'acme', 'enterprise', now());
    insert into roles (name, slug) values ('Owner', 'org-owner'), ('Admin', 'org-admin'), ('Member', 'org-member')`)
  const createUser = async (email: string, type: string, role: string): Promise<number> => {
    const id = await adonis.createUser({ email, password: 'a password' })
    await backend.query('update users set user_type = $2 where id = $1', [id, type])
    await backend.query(
      `insert into user_roles (user_id, role_id, organization_id)
        select $1, id, 1 from roles where slug = $2`,
      [id, role],
    )
    return id
  }
  const robot = await createUser('robot@acme.example', 'client-managed', 'org-admin')
  const mintHere = async (body: object): Promise<Answer> => {
    const headers = await login('admin', 'admin@acme.example')
    return send({ method: 'POST', path: `/organizations/1/users/${robot}/tokens`, headers, body: JSON.stringify(body) })
  }
  const isHearing = async (): Promise<boolean> =>
    (await (await fetch(`${gateway.admin}/metrics`)).text()).includes(
      'sallyport_invalidation_source_up{source="postgres"} 1',
    )
  await until(isHearing, 'the connection for changes')

  t.test('the check finds nothing wrong, but for indexes that AdonisJS does not make', async (t) => {
    const vocabulary = { roles: new Set(['org-owner', 'org-admin', 'org-member']), resources: [] }
    const options = { url: gatewayUrl, vocabulary, triesWrites: true, timeoutMs: 10_000 }
    const { isAdopted, problems } = await checkDirectory(options)
    t.equal(isAdopted, true)
    t.equal(problems.length, 2)
    t.match(problems, [
      { code: 'no-index', where: 'public.auth_access_tokens', message: /tokenable_id/ },
      { code: 'no-index', where: 'public.agents', message: /organization_id/ },
    ])
  })

  t.test(
    'a token minted by AdonisJS is let through to the backend, as the user and member that it belongs to',
    async (t) => {
      const { id, value } = await adonis.mint(robot, ['datasets:read', 'datasets:write'], { name: 'ci' })
      t.equal(await use(value), 200)
      t.equal(await use(value, 'POST'), 200)
      const request = upstream.received().join('')
      const [, payload = ''] = /x-gateway-identity: [\w-]+\.([\w-]+)\./.exec(request) ?? []
      t.match(JSON.parse(Buffer.from(payload, 'base64url').toString()), {
        sub: String(robot),
        organization: { id: 1, slug: 'acme', role: 'org-admin' },
        abilities: ['datasets:read', 'datasets:write'],
        credential: { kind: 'api-token', id },
      })
      const me = await send({ path: '/users/me', headers: bearer(value) })
      t.match(me.json(), {
        data: {
          id: robot,
          email: 'robot@acme.example',
          userType: 'client-managed',
          currentOrganization: { slug: 'acme', accountType: 'enterprise', memberCount: String },
          currentAccessToken: { type: 'bearer', name: 'ci', abilities: ['datasets:read', 'datasets:write'] },
        },
      })
    },
  )

  t.test('the abilities of a token of AdonisJS limit it at the gateway', async (t) => {
    const reading = await adonis.mint(robot, ['datasets:read'])
    t.equal(await use(reading.value), 200)
    t.equal(await use(reading.value, 'POST'), 403)
    // AdonisJS' `*` covers every ability of the role, and no more.
    const everything = await adonis.mint(robot)
    t.same(everything.abilities, ['*'])
    t.equal(await use(everything.value, 'POST'), 200)
    t.equal((await send({ path: '/admin/x', headers: bearer(everything.value) })).status, 403)
    const nothing = await adonis.mint(robot, [])
    t.equal(await use(nothing.value), 403)
  })

  t.test('the expiry of a token of AdonisJS ends it at the gateway', async (t) => {
    const { value, expiresAt } = await adonis.mint(robot, ['*'], { expiresIn: '2 seconds' })
    t.equal(await use(value), 200)
    await until(() => Date.now() >= Date.parse(expiresAt ?? ''), 'its time')
    t.equal(await use(value), 401)
  })

  t.test('a token that AdonisJS deletes is refused at the gateway within the bound', async (t) => {
    const { id, value } = await adonis.mint(robot)
    t.equal(await use(value), 200)
    t.equal(await adonis.delete(robot, id), 1)
    await until(async () => (await use(value)) === 401, 'the refusal', boundMs)
    for (let again = 0; again < 20; again += 1) t.equal(await use(value), 401)
  })

  t.test('a forged token of AdonisJS is refused', async (t) => {
    const { id, value } = await adonis.mint(robot)
    const [prefix = '', encoded = ''] = value.split('.')
    const secret = Buffer.from(encoded, 'base64url').toString()
    const forge = (text: string): string => `${prefix}.${Buffer.from(text).toString('base64url')}`
    const guess = 'A'.repeat(40)
    const misspelt = secret.slice(0, 40) + (Number(secret.slice(40)) ^ 1)
    for (const forged of [forge(misspelt), forge(`${guess}${crc32(guess)}`)]) {
      t.equal(await use(forged), 401)
      t.equal(await adonis.verify(forged), null)
    }
    t.equal(await use(value), 200)
    // AdonisJS would accept any text that hashes to the stored value, so the test checks the checksum itself.
    await backend.query('update auth_access_tokens set hash = $2 where id = $1', [id, hashSecret(misspelt)])
    t.ok(await adonis.verify(forge(misspelt)))
    t.equal(await use(forge(misspelt)), 401)
  })

  t.test('a token for another purpose is refused', async (t) => {
    t.equal(await use(await adonis.mintOther(robot, 'password_reset')), 401)
  })

  t.test('a person’s token of AdonisJS is refused: people come with OAuth', async (t) => {
    const person = await createUser('person@acme.example', 'human', 'org-member')
    const { value } = await adonis.mint(person)
    t.ok(await adonis.verify(value))
    t.equal(await use(value), 401)
  })

  t.test('a first login creates a user of the backend, without a password', async (t) => {
    const headers = await login('newcomer', 'newcomer@acme.example')
    const me = await send({ path: '/users/me', headers })
    t.match(me, { status: 200 }, me.text)
    const { rows } = await backend.query(
      "select id, user_type, password, created_at from users where email like 'newcomer@%'",
    )
    t.match(rows, [{ id: me.json().data.id, user_type: 'human', password: '!', created_at: Date }])
    for (const password of ['!', '', 'a password'])
      t.equal(await adonis.checkPassword('newcomer@acme.example', password), false)
    t.equal((await send({ path: '/users/me', headers })).json().data.id, me.json().data.id, 'and stays the same')
  })

  t.test('a known address does not make a second user: 401, and nothing is written', async (t) => {
    const count = async () => (await backend.query('select count(*)::int as n from users')).rows[0].n
    const before = await count()
    const answer = await send({ path: '/users/me', headers: await login('impostor', 'robot@acme.example') })
    t.equal(answer.status, 401)
    t.equal(await count(), before)
  })

  t.test('a user that the backend locks out is refused within the bound, and not created again', async (t) => {
    const headers = await login('leaver', 'leaver@acme.example')
    t.equal((await send({ path: '/users/me', headers })).status, 200)
    await backend.query("update users set deleted_at = now(), email = 'gone' where email = 'leaver@acme.example'")
    await until(async () => (await send({ path: '/users/me', headers })).status === 401, 'the refusal', boundMs)
    t.equal((await backend.query("select id from users where email = 'leaver@acme.example'")).rowCount, 0)
  })

  t.test('a token minted by the gateway is verified by AdonisJS, with its abilities and expiry', async (t) => {
    await send({ path: '/users/me', headers: await login('admin', 'admin@acme.example') })
    await backend.query(
      `insert into user_roles (user_id, role_id, organization_id)
        select u.id, r.id, 1 from users u, roles r where u.email = 'admin@acme.example' and r.slug = 'org-admin'`,
    )
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString()
    await until(async () => (await mintHere({ scope: 'api-key' })).status === 201, 'the right to mint', boundMs)
    const minted = (await mintHere({ scope: 'api-key', name: 'from here', expiresAt })).json().data
    t.match(await adonis.verify(minted.token), {
      id: minted.id,
      userId: robot,
      name: 'from here',
      abilities: minted.abilities,
      expiresAt,
      allowsReading: true,
      allowsWriting: false,
    })
    t.equal(await use(minted.token), 200)
    const short = (
      await mintHere({ scope: 'api-secret', expiresAt: new Date(Date.now() + 2_000).toISOString() })
    ).json()
    t.match(await adonis.verify(short.data.token), { allowsWriting: true })
    await until(async () => (await adonis.verify(short.data.token)) === null, 'its expiry there')
    t.equal(await use(short.data.token), 401)
    const list = await send({
      path: `/organizations/1/users/${robot}/tokens?perPage=100`,
      headers: await login('admin', 'admin@acme.example'),
    })
    const here = list.json().data.map(({ id }: { id: number }) => id)
    t.same(here.sort(), (await adonis.list(robot)).map(({ id }) => id).sort(), 'both list the same tokens')
  })

  t.test(
    'a token that the gateway revokes is gone in AdonisJS; uses and switches are written to the backend’s tables',
    async (t) => {
      const { token, id } = (await mintHere({ scope: 'api-key' })).json().data
      t.ok(await adonis.verify(token))
      const headers = await login('admin', 'admin@acme.example')
      const path = `/organizations/1/users/${robot}/tokens/${id}`
      t.equal((await send({ method: 'DELETE', path, headers })).status, 200)
      t.equal(await adonis.verify(token), null)
      t.equal((await send({ method: 'POST', path: '/organizations/1/switch', headers })).status, 200)
      const { rows } = await backend.query(
        "select current_organization_id from users where email = 'admin@acme.example'",
      )
      t.same(rows, [{ current_organization_id: 1 }])
      const events = await backend.query('select action from sallyport_directory.audit_events order by id desc limit 2')
      t.same(events.rows, [{ action: 'organization.switched' }, { action: 'token.revoked' }])
      const used = await adonis.mint(robot)
      t.equal(await use(used.value), 200)
      const lastUse = async () =>
        (await backend.query('select last_used_at from auth_access_tokens where id = $1', [used.id])).rows[0]
          .last_used_at
      await until(async () => (await lastUse()) instanceof Date, 'the note of its use', 10_000)
    },
  )

  t.test('a role that is taken away is missed within the bound', async (t) => {
    const { value } = await adonis.mint(robot)
    t.equal(await use(value, 'POST'), 200)
    await backend.query(
      "update user_roles set role_id = (select id from roles where slug = 'org-member') where user_id = $1",
      [robot],
    )
    await until(async () => (await use(value, 'POST')) === 403, 'the refusal', boundMs)
    t.equal(await use(value), 200)
    // The trigger of a renamed role names no user, so every cache entry goes.
    await backend.query("update roles set slug = 'retired' where slug = 'org-member'")
    await until(async () => (await use(value)) === 403, 'the refusal', boundMs)
  })
}
