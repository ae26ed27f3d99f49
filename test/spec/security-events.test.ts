import t, { type Test } from 'tap'
import { startKeyedIssuer } from '../support/cause-people.ts'
import { call } from '../support/client.ts'
import { startEndlessUpstream } from '../support/endless-upstream.ts'
import { parseEvents } from '../support/event-streams.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { client, prepareLogouts, seconds, statusOf } from '../support/logout-fixture.ts'
import { readAnswer } from '../support/streams.ts'
import { eventTypes, pushEvent, pushSecret, startTransmitter, withTransmitter } from '../support/transmitter.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const fixture = await prepareLogouts(t, world)
const { issuer, database, addSubject } = fixture
const transmitter = await startTransmitter(t)
const settings = withTransmitter(fixture, transmitter, { ignoreMembers: ['tenant'] })
const upstream = await startEndlessUpstream(t)
const upstreams = { agents: { url: upstream.url }, platform: { url: upstream.url } }
const start = (owner: Test, more: object = {}) =>
  startTestGateway(owner, { world, upstreams, settings: { ...settings, ...more } })
const [first, second] = await Promise.all([start(t), start(t)])
const replicas = [first, second]

const user = (sub: string, iss = issuer.issuer) => ({ format: 'iss_sub', iss, sub })
const session = (id: string) => ({ format: 'opaque', id })
const email = (address: string) => ({ format: 'email', email: address })

const refusedEverywhere = (jwt: string): Promise<void> =>
  until(async () => {
    const statuses = await Promise.all(replicas.map((replica) => statusOf(replica, jwt)))
    return statuses.every((status) => status === 401)
  }, 'the refusals')

const readMetrics = async ({ admin }: { admin: string }): Promise<string> =>
  (await call(admin, { path: '/metrics' })).text

const rowsOf = async (subject: string) =>
  (await database.query('select * from logouts where subject = $1', [subject])).rows

t.test('each event that ends logins does so on every replica, and later logins are good', async (t) => {
  const { sessionRevoked, credentialChange, tokenClaimsChange, accountDisabled } = eventTypes
  const ending: readonly (readonly [type: string, event: object])[] = [
    [sessionRevoked, { initiating_entity: 'policy', reason_admin: { en: 'a policy' } }],
    [accountDisabled, { reason: 'hijacking' }],
    [tokenClaimsChange, { claims: { role: 'ro-admin' } }],
    ...['revoke', 'update', 'delete'].map(
      (change_type) => [credentialChange, { credential_type: 'password', change_type }] as const,
    ),
  ]
  for (const [type, event] of ending) {
    const [subject, other] = [await addSubject(), await addSubject()]
    const [jwt, kept] = [await issuer.sign({ sub: subject }), await issuer.sign({ sub: other })]
    for (const replica of replicas) t.equal(await statusOf(replica, jwt), 200)
    const answer = await pushEvent(first, await transmitter.tell(type, user(subject), event))
    t.same([answer.status, answer.text, answer.headers['cache-control']], [202, '', 'no-store'], type)
    t.equal(await statusOf(first, jwt), 401, `${type}: at once where it came`)
    await refusedEverywhere(jwt)
    t.equal(await statusOf(second, kept), 200)
    const at = seconds()
    await until(async () => seconds() > at, 'the next second')
    t.equal(await statusOf(second, await issuer.sign({ sub: subject, iat: seconds(), nbf: null })), 200)
  }
})

t.test('an event ends what is open, and the audit has it', async (t) => {
  const subject = await addSubject()
  const jwt = await issuer.sign({ sub: subject })
  const path = `/agent/${world.agents.acme}/responses`
  const streams = await Promise.all(replicas.map((replica) => readAnswer(replica.public + path, oauth({ jwt }))))
  await pushEvent(first, await transmitter.tell(eventTypes.accountDisabled, user(subject)))
  for (const stream of streams) {
    const last = parseEvents(await stream.whole()).at(-1)
    t.equal(JSON.parse(last?.data ?? '{}').response.metadata.x_service_error_code, 'access_revoked')
  }
  const { rows } = await database.query(
    `select e.*, i.subject from audit_events e join user_identities i on i.user_id = e.subject_id
     where action = 'sessions.signed_out' and i.subject = $1`,
    [subject],
  )
  t.match(rows, [{ credential: 'security-event', actor_id: null, client_address: '127.0.0.1' }])
})

t.test('a new credential, an event of another type, and an old one change nothing, and are acknowledged', async (t) => {
  const subject = await addSubject()
  const jwt = await issuer.sign({ sub: subject })
  const tokens = [
    await transmitter.tell(eventTypes.credentialChange, user(subject), {
      credential_type: 'fido2-roaming',
      change_type: 'create',
    }),
    await transmitter.tell(
      'https://schemas.openid.net/secevent/caep/event-type/device-compliance-change',
      user(subject),
    ),
    await transmitter.tell(eventTypes.sessionRevoked, user(subject), { event_timestamp: 1 }),
  ]
  for (const token of tokens) t.equal((await pushEvent(first, token)).status, 202)
  t.equal(await statusOf(first, jwt), 200)
  t.same(await rowsOf(subject), [])
  t.match(await readMetrics(first), /security_events_total\{transmitter="idp",event="other",outcome="ignored"[^}]*\} 1/)
})

t.test('the cut-off is the time of the event, and never after its receipt', async (t) => {
  const at = seconds() - 20
  const cases: readonly (readonly [name: string, event: object, claims: object, cutOff: number])[] = [
    ['event_timestamp', { event_timestamp: at }, { iat: at + 5, toe: at + 4 }, at],
    ['toe', {}, { iat: at + 5, toe: at }, at],
    ['iat', {}, { iat: at }, at],
    ['a timestamp after the token', { event_timestamp: at + 9_999 }, { iat: at }, at],
    ['milliseconds', { event_timestamp: at * 1_000 }, { iat: at }, at],
  ]
  for (const [name, event, claims, cutOff] of cases) {
    const subject = await addSubject()
    const token = await transmitter.tell(eventTypes.sessionRevoked, user(subject), event, { ...claims })
    t.equal((await pushEvent(first, token)).status, 202, name)
    t.equal(await statusOf(first, await issuer.sign({ sub: subject, iat: cutOff })), 401, name)
    t.equal(await statusOf(first, await issuer.sign({ sub: subject, iat: cutOff + 1 })), 200, name)
    const [row] = await rowsOf(subject)
    t.equal(row.at.getTime() / 1_000, cutOff, name)
    t.ok(row.expires_at - row.at >= 86_400_000, 'it outlives what it refuses')
    const before = await database.query('select count(*) from audit_events')
    for (const replica of replicas) t.equal((await pushEvent(replica, token)).status, 202, `${name}: a replay`)
    t.same(await rowsOf(subject), [row])
    t.same((await database.query('select count(*) from audit_events')).rows, before.rows)
  }
})

t.test('a moment further ahead than the tolerance of the issuer counts until its first receipt alone', async (t) => {
  const clockToleranceSeconds = 30
  const tolerant = {
    issuers: settings.issuers.map((one) => ({ ...one, clockToleranceSeconds: 0 })),
    transmitters: settings.transmitters.map((one) => ({ ...one, clockToleranceSeconds })),
  }
  const own = await start(t, tolerant)
  const told = await addSubject()
  const iat = seconds() + 2
  const event = await transmitter.tell(eventTypes.sessionRevoked, user(told), {}, { iat })
  const bring = async (gateway: typeof own): Promise<void> => {
    t.equal((await pushEvent(gateway, event)).status, 202)
  }
  const readAll = async () => [await rowsOf(told)]
  await bring(own)
  const answeredAt = seconds()
  const rows = await readAll()
  const moments = rows.map(([row]) => row.at.getTime() / 1_000)
  for (const at of moments) t.ok(at <= answeredAt)
  const audited = await database.query("select from audit_events where action = 'sessions.signed_out'")
  await until(() => seconds() > iat, 'the moment itself')
  const later = await start(t, tolerant)
  for (const [index, sub] of [told].entries()) {
    const at = moments[index] ?? 0
    const expectCutOff = async (gateway: typeof own): Promise<void> => {
      t.equal(await statusOf(gateway, await issuer.sign({ sub, iat: at })), 401)
      t.equal(await statusOf(gateway, await issuer.sign({ sub, iat: at + 1 })), 200)
    }
    for (const gateway of [own, later]) await expectCutOff(gateway)
    for (const gateway of [own, later]) await bring(gateway)
    for (const gateway of [own, later]) await expectCutOff(gateway)
  }
  t.same(await readAll(), rows, 'a replay moves nothing, before a restart and after one')
  const { rowCount } = await database.query("select from audit_events where action = 'sessions.signed_out'")
  t.equal(rowCount, audited.rowCount)
})

t.test('a complex subject ends the logins that match every member', async (t) => {
  const [ada, bob] = [await addSubject(), await addSubject()]
  const sign = (sub: string, sid: string | null, more: object = {}) => issuer.sign({ sub, sid, ...more })
  const tell = (members: object) =>
    transmitter.tell(eventTypes.sessionRevoked, { format: 'complex', tenant: session('t'), ...members })
  t.equal((await pushEvent(first, await tell({ user: user(ada), session: session('s-1') }))).status, 202)
  t.equal(await statusOf(first, await sign(ada, 's-1')), 401)
  t.equal(await statusOf(first, await sign(ada, 's-2')), 200)
  t.equal(await statusOf(first, await sign(bob, 's-1')), 200, 'the session of another user')
  t.equal(await statusOf(first, await sign(ada, null)), 401, 'perhaps of that session')
  const [carol, address] = [await addSubject(), 'carol@complex.example']
  await pushEvent(first, await tell({ user: email(address), session: session('s-3') }))
  const verified = { email: address, email_verified: true }
  t.equal(await statusOf(first, await sign(carol, 's-3', verified)), 401)
  t.equal(await statusOf(first, await sign(carol, 's-4', verified)), 200)
  t.equal(await statusOf(first, await sign(bob, 's-3')), 200)
  t.equal((await pushEvent(first, await tell({ user: user(bob), session: session('ALL') }))).status, 202)
  t.equal(await statusOf(first, await sign(bob, 's-5')), 401, 'all sessions, as Keycloak names them')
  t.equal(await statusOf(first, await sign(carol, 's-5')), 200)
})

t.test('an address matches only what the issuer of the JWT verified', async (t) => {
  const subject = await addSubject()
  const address = 'Ada@Events.example'
  const sign = (claims: object) => issuer.sign({ sub: subject, ...claims })
  const neighbour = await startKeyedIssuer(t)
  const other = {
    ...{ issuer: neighbour.issuer, audience: 'sallyport-demo', jwksUri: `${neighbour.issuer}/keys` },
    ...{ trustEmailVerified: true, logout: { audience: client } },
  }
  const own = await start(t, { issuers: [...settings.issuers, other] })
  const ofOther = await neighbour.sign({ sub: 'ada-elsewhere', email: 'ada@events.example', email_verified: true })
  t.equal(await statusOf(own, ofOther), 200)
  await pushEvent(first, await transmitter.tell(eventTypes.accountDisabled, email(address)))
  const verified = await sign({ email: 'ada@events.EXAMPLE', email_verified: true })
  await refusedEverywhere(verified)
  t.equal(await statusOf(second, await sign({ email: address, email_verified: false })), 200)
  t.equal(await statusOf(second, await sign({ email: address, email_verified: 'true' })), 200)
  t.equal(await statusOf(second, await sign({ email: 'other@events.example', email_verified: true })), 200)
  t.equal(await statusOf(second, await sign({})), 200)
  await until(async () => (await statusOf(own, verified)) === 401, 'the refusal')
  t.equal(await statusOf(own, ofOther), 200, 'another issuer verified it')
  t.match(await readMetrics(first), /security_events_total\{[^}]*outcome="stored",cause="address"[^}]*\} [1-9]/)
})

t.test('a session without a user ends that session, and is counted apart', async (t) => {
  const subject = await addSubject()
  const sign = (sid: string | null) => issuer.sign({ sub: subject, sid })
  t.equal(await statusOf(first, await sign(null)), 200)
  await pushEvent(first, await transmitter.tell(eventTypes.sessionRevoked, session('alone')))
  await refusedEverywhere(await sign('alone'))
  t.equal(await statusOf(first, await sign('other')), 200)
  t.equal(await statusOf(first, await sign(null)), 200)
  const text = await readMetrics(first)
  t.match(text, /security_events_total\{[^}]*event="session-revoked",outcome="stored",cause="without_subject"[^}]*\} 1/)
  t.match(text, new RegExp(`sallyport_logins_without_session\\{issuer="${issuer.issuer}"`))
})

t.test('known and unknown subjects are answered alike, and a first login after an event is refused', async (t) => {
  const tell = (sub: string) => transmitter.tell(eventTypes.accountDisabled, user(sub))
  const known = await pushEvent(first, await tell(await addSubject()))
  const unknown = await pushEvent(first, await tell('unheard-of'))
  const shape = ({ status, text, headers }: typeof known) => [status, text, Object.keys(headers)]
  t.same(shape(unknown), shape(known))
  t.equal(await statusOf(first, await issuer.sign({ sub: 'unheard-of' })), 401)
  // Nothing is looked up for the answer, so that its time tells no more. The look for unmatched ends comes a second later.
  const own = await start(t)
  const nameStatements = async (): Promise<readonly string[]> =>
    [
      ...(await readMetrics(own)).matchAll(
        /query_duration_seconds_count\{statement="((?:find-(?!schema|by-identity)|write-)[^"]*)"[^}]*\} (\d+)/g,
      ),
    ]
      .map(([, name, count]) => `${name} ${count}`)
      .sort()
  const costOf = async (sub: string): Promise<readonly string[]> => {
    const before = await nameStatements()
    t.equal((await pushEvent(own, await tell(sub))).status, 202)
    return (await nameStatements()).filter((line) => !before.includes(line)).map((line) => line.split(' ')[0] ?? '')
  }
  for (const sub of [await addSubject(), 'never-seen']) t.same(await costOf(sub), ['write-logouts'])
})

t.test('a transmitter speaks for its configured issuers alone', async (t) => {
  const subject = await addSubject()
  const other = 'http://other.example'
  const own = await start(t, {
    issuers: [...settings.issuers, { issuer: other, audience: 'x', jwksUri: `${issuer.issuer}/keys`, required: false }],
  })
  const foreign = await pushEvent(own, await transmitter.tell(eventTypes.accountDisabled, user(subject, other)))
  t.match(foreign, { status: 400 })
  t.match(foreign.json(), { err: 'access_denied', description: /does not speak/ })
  const impostor = await startTransmitter(t)
  t.match((await pushEvent(own, await impostor.tell(eventTypes.accountDisabled, user(subject)))).json(), {
    err: 'invalid_issuer',
  })
  const forged = await impostor.tell(eventTypes.accountDisabled, user(subject), {}, { iss: transmitter.issuer })
  t.match((await pushEvent(own, forged)).json(), { err: 'invalid_key' })
  t.same(await rowsOf(subject), [])
})

t.test('an issuer of JWTs lends its keys, and is told of by its own events alone', async (t) => {
  const own = await start(t, {
    issuers: settings.issuers.map(({ logout, ...rest }) => rest),
    transmitters: [
      { name: 'self', issuer: issuer.issuer, audience: 'stream', push: { bearer: ['x'.repeat(32), pushSecret] } },
    ],
  })
  const subject = await addSubject()
  const jwt = await issuer.sign({ sub: subject })
  t.equal(await statusOf(own, jwt), 200)
  const claims = { aud: 'stream', sub: null, exp: null, canary: null, jti: 'j', sub_id: user(subject), iat: seconds() }
  const token = await issuer.sign({ ...claims, events: { [eventTypes.sessionRevoked]: {} } }, { typ: 'secevent+jwt' })
  t.equal((await pushEvent(own, token, { name: 'self', secret: 'x'.repeat(32) })).status, 202)
  t.equal(await statusOf(own, jwt), 401)
  t.equal(await statusOf(own, token), 401, 'an event is not a credential')
})

t.test('a stream tells of its verification and its status', async (t) => {
  const own = await start(t)
  const tell = (type: string, event: object) => transmitter.tell(type, session('stream-1'), event)
  t.match(await readMetrics(own), /stream_status_timestamp_seconds\{transmitter="idp",status="paused"[^}]*\} 0/)
  t.equal((await pushEvent(own, await tell(eventTypes.verification, {}))).status, 202)
  t.equal((await pushEvent(own, await tell(eventTypes.streamUpdated, { status: 'paused' }))).status, 202)
  const text = await readMetrics(own)
  t.match(text, /security_events_total\{transmitter="idp",event="verification",outcome="noted"[^}]*\} 1/)
  t.match(text, /stream_status_timestamp_seconds\{transmitter="idp",status="paused"[^}]*\} [1-9]/)
  t.match(text, /security_event_timestamp_seconds\{transmitter="idp"[^}]*\} [1-9]/)
  t.equal((await pushEvent(own, await tell(eventTypes.streamUpdated, { status: 'gone' }))).status, 400)
})

t.test('a transmitter that does not authenticate costs no fetch, and learns nothing', async (t) => {
  const own = await start(t)
  await pushEvent(own, await transmitter.tell(eventTypes.verification, session('stream-1')))
  const asked = transmitter.asked()
  const token = await transmitter.sign({ events: { [eventTypes.accountDisabled]: {} } }, { kid: 'unheard-of' })
  const attempts = [
    { secret: 'wrong-secret-of-the-transmitter-012345' },
    { secret: `${pushSecret}x` },
    { secret: '' },
    { headers: { authorization: `Basic ${pushSecret}` } },
    { name: 'nobody-known' },
    { name: '' },
    { name: 'idp/' },
  ]
  const answers = []
  for (const attempt of attempts) answers.push(await pushEvent(own, token, attempt))
  for (const { status, text } of answers) {
    t.equal(status, 400)
    t.equal(text, answers[0]?.text)
  }
  t.match(answers[0]?.json(), { err: 'authentication_failed' })
  t.equal(transmitter.asked(), asked)
  t.match(await readMetrics(own), /security_events_total\{transmitter="unknown"[^}]*cause="secret_wrong"[^}]*\} 7/)
})

t.test('the listener takes events in their form alone', async (t) => {
  const token = await transmitter.tell(eventTypes.accountDisabled, user(await addSubject()))
  const json = await pushEvent(first, token, { headers: { 'content-type': 'application/json' } })
  t.match([json.status, json.json()], [400, { err: 'invalid_request' }])
  t.equal((await pushEvent(first, 'x'.repeat(20_000))).status, 413)
  t.match(await call(first.signals, { path: '/ssf/idp' }), { status: 405, headers: { allow: 'POST' } })
  t.equal((await pushEvent(first, token)).status, 202)
})

t.test('a configuration that could not take or keep an event is refused', async (t) => {
  const [usual] = settings.transmitters
  const refuse = (more: object, message: RegExp) => t.rejects(start(t, more), { message })
  const change = (changes: object, message: RegExp) => refuse({ transmitters: [{ ...usual, ...changes }] }, message)
  await change({ speaksFor: ['https://unheard-of.example'] }, /https:\/\/unheard-of.example is not one of issuers/)
  await change({ jwksUri: undefined }, /its keys are unknown. Give jwksUri/)
  await change({ issuer: issuer.issuer }, /the keys are those of issuers/)
  const clear = { issuer: 'http://idp.example', jwksUri: 'http://idp.example/keys' }
  await change(clear, /it is http on another machine/)
  await change({ push: { bearer: 'short' } }, /transmitters/)
  await change({ name: 'Not A Name' }, /small letters/)
  await refuse({ transmitters: [usual, usual] }, /the name is used twice/)
  await refuse({ listeners: { ...settings.listeners, signals: undefined } }, /pushes need listeners.signals/)
  const directoryRules = [{ claim: '/groups', matches: 'staff', platformRole: 'admin' }]
  const claims = {
    database: undefined,
    directory: { kind: 'claims' },
    issuers: settings.issuers.map(({ logout, ...rest }) => ({ ...rest, directoryRules })),
  }
  await refuse(claims, /events need a database/)
})
