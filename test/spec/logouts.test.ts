import { once } from 'node:events'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { changeHeader } from '../support/cause-people.ts'
import { call } from '../support/client.ts'
import { startEndlessUpstream } from '../support/endless-upstream.ts'
import { parseEvents } from '../support/event-streams.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { client, logoutEvent, prepareLogouts, push, seconds, statusOf } from '../support/logout-fixture.ts'
import { readAnswer } from '../support/streams.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { issuer, database, addSubject, signLogout, settings } = await prepareLogouts(t, world)
const upstream = await startEndlessUpstream(t)
const upstreams = { agents: { url: upstream.url }, platform: { url: upstream.url } }
const start = (owner: Test, more: object = {}) =>
  startTestGateway(owner, { world, upstreams, settings: { ...settings, ...more } })
const [first, second] = await Promise.all([start(t), start(t)])
const replicas = [first, second]

const rowsOf = async (subject: string) =>
  (await database.query('select * from logouts where subject = $1', [subject])).rows

const countRows = async (): Promise<number> =>
  Number((await database.query<{ count: string }>('select count(*) from logouts')).rows[0]?.count)

/** Resolves once both replicas refuse it. */
const refusedEverywhere = (jwt: string): Promise<void> =>
  until(async () => {
    const statuses = await Promise.all(replicas.map((replica) => statusOf(replica, jwt)))
    return statuses.every((status) => status === 401)
  }, 'the refusals')

const readMetrics = async ({ admin }: { admin: string }): Promise<string> =>
  (await call(admin, { path: '/metrics' })).text

t.test('a logout refuses earlier JWTs of its subject on every replica, and ends what they opened', async (t) => {
  const [subject, other] = [await addSubject(), await addSubject()]
  const jwt = await issuer.sign({ sub: subject })
  const kept = await issuer.sign({ sub: other })
  for (const replica of replicas) {
    t.equal(await statusOf(replica, jwt), 200)
    t.equal(await statusOf(replica, kept), 200)
  }
  const path = `/agent/${world.agents.acme}/responses`
  const streams = await Promise.all(replicas.map((replica) => readAnswer(replica.public + path, oauth({ jwt }))))
  const staying = await readAnswer(second.public + path, oauth({ jwt: kept }))
  const socket = new WebSocket(`${second.public.replace('http', 'ws')}/socket`, { headers: oauth({ jwt }) })
  t.teardown(() => socket.terminate())
  await once(socket, 'message')
  const closed = once(socket, 'close')
  const answer = await push(first, await signLogout({ sub: subject }))
  t.same([answer.status, answer.text, answer.headers['cache-control']], [200, '', 'no-store'])
  t.match(answer.headers['x-request-id'], /./)
  t.equal(await statusOf(first, jwt), 401, 'at once where it came')
  await refusedEverywhere(jwt)
  for (const stream of streams) {
    const last = parseEvents(await stream.whole()).at(-1)
    t.equal(JSON.parse(last?.data ?? '{}').response.metadata.x_service_error_code, 'access_revoked')
  }
  t.equal((await closed)[0], 1008)
  t.equal(await statusOf(second, kept), 200)
  const { length } = staying.text()
  await until(() => staying.text().length > length, 'further events')
  staying.leave()
  t.equal(
    await statusOf(second, await issuer.sign({ sub: subject, iat: seconds() + 60, nbf: null })),
    401,
    'of the future',
  )
  await until(
    async () => (await statusOf(second, await issuer.sign({ sub: subject, iat: seconds() }))) === 200,
    'a login',
  )
  t.match(
    await readMetrics(second),
    /sallyport_exchanges_ended_total\{reason="access_revoked",cause="signed_out"[^}]*\} 2/,
  )
  const { rows } = await database.query(
    `select e.*, i.subject from audit_events e join user_identities i on i.user_id = e.subject_id
     where action = 'sessions.signed_out'`,
  )
  t.match(rows, [{ credential: 'logout-token', actor_id: null, subject, client_address: '127.0.0.1' }])
})

t.test('JWTs of the same second, or of a longer life, count as earlier', async (t) => {
  const [subject, other] = [await addSubject(), await addSubject()]
  const at = seconds() - 10
  const versions: readonly Readonly<Record<string, unknown>>[] = [
    { iat: at },
    { iat: at + 0.9 },
    { iat: seconds() - 5, exp: seconds() + 86_400 },
  ]
  const sign = (sub: string, claims: object) => issuer.sign({ sub, ...claims })
  for (const claims of versions)
    t.equal(await statusOf(second, await sign(subject, claims)), 200, JSON.stringify(claims))
  t.equal((await push(first, await signLogout({ sub: subject, iat: at }))).status, 200)
  await refusedEverywhere(await sign(subject, { iat: at }))
  for (const claims of versions) {
    t.equal(await statusOf(second, await sign(subject, claims)), 401, JSON.stringify(claims))
    t.equal(await statusOf(second, await sign(other, claims)), 200, JSON.stringify(claims))
  }
  t.equal(await statusOf(second, await sign(subject, { iat: at + 1 })), 200)
})

t.test('a JWT counts for the longest life alone, so that no logout is outlived', async (t) => {
  const subject = await addSubject()
  const old = seconds() - 86_401
  t.equal(await statusOf(first, await issuer.sign({ sub: subject, iat: old, exp: seconds() + 3_600 })), 401)
  t.equal(await statusOf(first, await issuer.sign({ sub: subject, iat: old + 60, exp: seconds() + 86_400 })), 200)
  t.equal(await statusOf(first, await issuer.sign({ sub: subject, iat: null, exp: seconds() + 86_500 })), 401)
  await push(first, await signLogout({ sub: subject }))
  const [row] = await rowsOf(subject)
  t.ok(row.expires_at - row.at >= 86_400_000, 'the row lives as long')
})

t.test('a logout of a session leaves other sessions, and ends all where JWTs name none', async (t) => {
  const subject = await addSubject()
  const sign = (sid: unknown) => issuer.sign({ sub: subject, sid })
  const [mine, another, nameless] = [await sign('s-1'), await sign('s-2'), await sign(null)]
  for (const jwt of [mine, another, nameless]) t.equal(await statusOf(second, jwt), 200)
  t.equal((await push(first, await signLogout({ sub: subject, sid: 's-1' }))).status, 200)
  await refusedEverywhere(mine)
  t.equal(await statusOf(second, another), 200)
  t.equal(await statusOf(second, nameless), 401)
})

t.test('a logout of a session without a subject ends that session, and is counted apart', async (t) => {
  const subject = await addSubject()
  const sign = (sid: unknown) => issuer.sign({ sub: subject, sid })
  const [mine, another, nameless] = [await sign('t-1'), await sign('t-2'), await sign(null)]
  for (const jwt of [mine, another, nameless]) t.equal(await statusOf(second, jwt), 200)
  t.equal((await push(first, await signLogout({ sid: 't-1' }))).status, 200)
  await refusedEverywhere(mine)
  t.equal(await statusOf(second, another), 200)
  t.equal(await statusOf(second, nameless), 200)
  t.match(await readMetrics(first), /sallyport_logouts_total\{outcome="stored",cause="without_subject"[^}]*\} 1/)
})

t.test('an unknown subject gets the same answer as a known one', async (t) => {
  const known = await push(first, await signLogout({ sub: await addSubject() }))
  const unknown = await push(first, await signLogout({ sub: 'not-a-subject-of-ours' }))
  const shape = ({ status, text, headers }: typeof known) => [status, text, Object.keys(headers)]
  t.same(shape(unknown), shape(known))
  t.equal((await rowsOf('not-a-subject-of-ours')).length, 1, 'a first login after it is refused too')
})

t.test('an older logout, and a replay, move nothing', async (t) => {
  const subject = await addSubject()
  const late = await signLogout({ sub: subject, iat: seconds() - 5 })
  await push(first, await signLogout({ sub: subject, iat: seconds() - 2 }))
  const [row] = await rowsOf(subject)
  for (const token of [late, late]) t.equal((await push(second, token)).status, 200)
  t.same(await rowsOf(subject), [row])
  t.equal(await statusOf(first, await issuer.sign({ sub: subject, iat: seconds() - 1 })), 200)
})

t.test('a replica that starts later refuses what was ended before', async (t) => {
  const subject = await addSubject()
  const jwt = await issuer.sign({ sub: subject, sid: 'u-1' })
  t.equal((await push(first, await signLogout({ sub: subject }))).status, 200)
  const third = await start(t)
  t.equal(await statusOf(third, jwt), 401)
  t.equal(await statusOf(third, await issuer.sign({ sub: await addSubject() })), 200)
})

/** Breaks a token in a way of its own; each is refused and changes nothing. */
const breaks: readonly ((subject: string) => Promise<string>)[] = [
  ...[{ aud: 'another-client' }, { aud: [client, 'another-client'] }, { aud: [] }, { aud: null }].map(
    (claims) => (sub: string) => signLogout({ sub, ...claims }),
  ),
  ...[
    { iss: 'https://another.example' },
    { iss: null },
    { nonce: 'n' },
    { events: null },
    { events: {} },
    { events: { 'https://other.example/event': {} } },
    { events: { [logoutEvent]: {}, 'https://other.example/event': {} } },
    { events: { [logoutEvent]: [] } },
    { events: { [logoutEvent]: true } },
    { events: [logoutEvent] },
    { jti: null },
    { jti: 7 },
    { jti: '' },
    { iat: null },
    { iat: 'now' },
    { iat: seconds() + 3_600 },
    { iat: seconds() - 86_400, exp: seconds() + 3_600 },
    { exp: null },
    { exp: seconds() - 1 },
    { exp: 'later' },
    { sub: null },
    { sub: '' },
    { sub: 7 },
    { sub: 'x'.repeat(256) },
    { sid: '' },
    { sid: 7 },
    { sid: 'line\nbreak' },
  ].map((claims) => (sub: string) => signLogout({ sub, ...claims })),
  ...[{ typ: 'JWT' }, { typ: 'at+jwt' }, { typ: 'secevent+jwt' }, { typ: undefined }, { kid: 'unknown' }].map(
    (header) => (sub: string) => signLogout({ sub }, header),
  ),
  async (sub) => changeHeader(await signLogout({ sub }), { crit: ['exp'] }),
  async (sub) => `${(await signLogout({ sub })).slice(0, -4)}AAAA`,
  async (sub) => `${await signLogout({ sub })}=`,
  async (sub) => `${await signLogout({ sub })}.x`,
  async (sub) => (await signLogout({ sub })).split('.').slice(0, 2).join('.'),
  async (sub) => {
    const [, payload = ''] = (await signLogout({ sub })).split('.')
    const header = Buffer.from(JSON.stringify({ alg: 'none', typ: 'logout+jwt' })).toString('base64url')
    return `${header}.${payload}.`
  },
  async (sub) => {
    const [header = '', , signature = ''] = (await signLogout({ sub })).split('.')
    const claims = { iss: issuer.issuer, aud: client, iat: seconds(), exp: seconds() + 60, jti: 'j', sub }
    const payload = Buffer.from(JSON.stringify({ ...claims, events: { [logoutEvent]: {} } })).toString('base64url')
    return `${header}.${payload}.${signature}`
  },
  // An access token is not a logout token, whatever its header says.
  (sub) => issuer.sign({ sub }),
  (sub) => issuer.sign({ sub, aud: client }, { typ: 'logout+jwt' }),
  async () => '',
  async () => 'x'.repeat(9_000),
]

t.test('200 forged, replayed, misaddressed and malformed tokens change nothing', async (t) => {
  const subject = await addSubject()
  const jwt = await issuer.sign({ sub: subject })
  const before = await countRows()
  const fetches = issuer.asked.length
  const startedMs = performance.now()
  let refused = 0
  for (let count = 0; count < 200; count += 1) {
    const make = breaks[count % breaks.length]
    const { status, text } = await push(first, (await make?.(subject)) ?? '')
    t.same([status, text], [400, '{"error":"invalid_request"}\n'], `number ${count % breaks.length}`)
    refused += 1
  }
  t.equal(refused, 200)
  t.equal(await countRows(), before)
  t.equal(await statusOf(first, jwt), 200)
  t.equal(await statusOf(second, jwt), 200)
  const halfMinutes = Math.ceil((performance.now() - startedMs) / 30_000)
  t.ok(issuer.asked.length - fetches <= halfMinutes, `${issuer.asked.length - fetches} fetches of keys`)
})

t.test('a logout token is not a credential, and the listener takes its form alone', async (t) => {
  const subject = await addSubject()
  const token = await signLogout({ sub: subject, aud: [client, 'sallyport-demo'] }, { typ: 'JWT' })
  t.equal(await statusOf(first, token), 401)
  const logout = await signLogout({ sub: subject })
  t.equal((await push(first, logout, { 'content-type': 'application/json' })).status, 400)
  const send = (wanted: Partial<Parameters<typeof call>[1]>) =>
    call(first.signals, {
      method: 'POST',
      path: '/backchannel-logout',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      ...wanted,
    })
  t.equal((await send({ body: `logout_token=${logout}&logout_token=${logout}` })).status, 400)
  t.equal((await send({ body: 'other=1' })).status, 400)
  t.equal((await send({ body: `logout_token=${logout}&${'x'.repeat(20_000)}` })).status, 413)
  t.match(await send({ method: 'GET', headers: {} }), { status: 405, headers: { allow: 'POST' } })
  t.equal((await send({ path: '/users/me', body: '' })).status, 404)
  t.equal((await rowsOf(subject)).length, 0)
  t.equal((await send({ body: `later=1&logout_token=${logout}` })).status, 200)
})

t.test('the typ of older issuers counts where the configuration says so', async (t) => {
  const older = await start(t, {
    issuers: settings.issuers.map((one) => ({ ...one, logout: { audience: [client], type: 'JWT' } })),
  })
  const subject = await addSubject()
  t.equal((await push(older, await signLogout({ sub: subject, exp: null }, { typ: 'JWT' }))).status, 200)
  t.equal((await push(older, await signLogout({ sub: subject }))).status, 200)
  for (const typ of ['application/jwt', 'application/logout+jwt', 'Application/Logout+JWT'])
    t.equal((await push(older, await signLogout({ sub: subject }, { typ }))).status, 200, typ)
  t.equal((await push(older, await signLogout({ sub: subject }, { typ: 'at+jwt' }))).status, 400)
  t.equal((await push(older, await issuer.sign({ sub: subject, aud: client }))).status, 400)
})

t.test('a replica without the listener refuses what another one heard of, if its configuration says so', async (t) => {
  const { signals: _, ...listeners } = settings.listeners
  const [issuerSettings] = settings.issuers
  const logout = { audience: client, heardElsewhere: true }
  const follower = await start(t, { listeners, issuers: [{ ...issuerSettings, logout }] })
  const jwt = await issuer.sign({ sub: await addSubject() })
  t.equal(await statusOf(follower, jwt), 200)
  const said = JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString())
  t.equal((await push(first, await signLogout({ sub: said.sub }))).status, 200)
  await until(async () => (await statusOf(follower, jwt)) === 401, 'the logout of the other replica')
})

t.test('a configuration that could not keep or take a logout is refused', async (t) => {
  const refuse = (more: object, message: RegExp) => t.rejects(start(t, more), { message })
  const [issuerSettings] = settings.issuers
  const directoryRules = [{ claim: '/groups', matches: 'staff', platformRole: 'admin' }]
  const claims = {
    database: undefined,
    directory: { kind: 'claims' },
    issuers: [{ ...issuerSettings, directoryRules }],
  }
  await refuse(claims, /logout of .* needs a database, which keeps logouts/)
  await refuse({ issuers: [{ ...issuerSettings, logout: undefined }] }, /listeners.signals: no issuer has logout/)
  const { signals: _, ...deaf } = settings.listeners
  await refuse({ listeners: deaf }, /logout of .* needs listeners.signals/)
  await refuse({ issuers: [{ ...issuerSettings, logout: {} }] }, /audience/)
})
