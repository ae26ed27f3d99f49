import t from 'tap'
import { changeHeader } from '../support/cause-people.ts'
import { startTestGateway } from '../support/gateway.ts'
import { client, logoutEvent, prepareLogouts, push, seconds, statusOf } from '../support/logout-fixture.ts'
import { eventAudience, eventTypes, pushEvent, startTransmitter, withTransmitter } from '../support/transmitter.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const fixture = await prepareLogouts(t, world)
const { issuer, database, addSubject, signLogout } = fixture
const transmitter = await startTransmitter(t)
const gateway = await startTestGateway(t, { world, settings: withTransmitter(fixture, transmitter) })
const [victim, other] = [await addSubject(), await addSubject()]
const session = 'session-of-the-victim'
const user = { format: 'iss_sub', iss: issuer.issuer, sub: victim }

type Members = Readonly<Record<string, unknown>>
type Forge = (sign: (claims: Members, header?: object) => Promise<string>) => Promise<string>

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

/** Claims that no signal may have, whatever its kind. */
const wrongClaims: readonly Members[] = [
  ...[{ iss: 'https://another.example' }, { iss: null }, { iss: 7 }, { iss: '' }],
  ...[{ aud: 'another' }, { aud: null }, { aud: [] }, { aud: 7 }, { aud: [eventAudience, client, 'another'] }],
  ...[{ jti: null }, { jti: '' }, { jti: 7 }, { jti: 'x'.repeat(256) }],
  ...[{ iat: null }, { iat: 'now' }, { iat: seconds() + 3_600 }],
  ...[{ events: null }, { events: {} }, { events: [] }, { events: 'x' }, { events: [logoutEvent] }],
  ...[{ events: { a: {}, b: {} } }, { events: { [logoutEvent]: true } }, { events: { [logoutEvent]: [] } }],
  { events: { [eventTypes.accountDisabled]: {}, [logoutEvent]: {} } },
]

const wrongHeaders: readonly object[] = [
  ...[
    { typ: undefined },
    { typ: 'JWT' },
    { typ: 'at+jwt' },
    { typ: 'logout+jwt+x' },
    { typ: 'application/at+jwt' },
    { kid: 'unheard-of' },
  ],
  { typ: ['secevent+jwt'] },
]

/** Forms that no token may have, whatever it says. */
const wrongForms: readonly ((token: string) => string)[] = [
  (token) => `${token.slice(0, -4)}AAAA`,
  (token) => `${token}=`,
  (token) => `${token}.x`,
  (token) => ` ${token}`,
  (token) => `${token}\n`,
  (token) => token.split('.').slice(0, 2).join('.'),
  (token) => `${token.split('.').slice(0, 2).join('.')}.`,
  (token) => [encode({ alg: 'none', typ: 'secevent+jwt' }), token.split('.')[1], ''].join('.'),
  (token) => changeHeader(token, { alg: 'none' }),
  (token) => changeHeader(token, { alg: 'HS256' }),
  (token) => changeHeader(token, { crit: ['b64'], b64: true }),
  (token) => changeHeader(token, { jwk: {}, jku: 'https://another.example/keys' }),
  (token) => {
    const [header, payload = '', signature] = token.split('.')
    const said = JSON.parse(Buffer.from(payload, 'base64url').toString())
    return [header, encode({ ...said, jti: 'another' }), signature].join('.')
  },
]

const forgeries = (kind: 'logout+jwt' | 'secevent+jwt'): readonly Forge[] => [
  ...wrongClaims.map(
    (claims): Forge =>
      (sign) =>
        sign(claims),
  ),
  ...wrongHeaders.map(
    (header): Forge =>
      (sign) =>
        sign({}, header),
  ),
  ...wrongForms.map(
    (deform): Forge =>
      async (sign) =>
        deform(await sign({})),
  ),
  (sign) => sign({}, { typ: kind === 'logout+jwt' ? 'secevent+jwt' : 'logout+jwt' }),
]

const ofLogouts: readonly Forge[] = [
  ...forgeries('logout+jwt'),
  ...[{ nonce: 'n' }, { exp: null }, { exp: seconds() - 1 }, { exp: 'later' }, { iat: seconds() - 86_400 }].map(
    (claims): Forge =>
      (sign) =>
        sign(claims),
  ),
  ...[{ sub: null, sid: null }, { sub: '' }, { sub: 7 }, { sub: 'x'.repeat(256) }, { sid: '' }, { sid: 'a\nb' }].map(
    (claims): Forge =>
      (sign) =>
        sign(claims),
  ),
  // An access token, whatever its header says.
  () => issuer.sign({ sub: victim }),
  () => issuer.sign({ sub: victim, aud: client }, { typ: 'logout+jwt' }),
  () => transmitter.tell(eventTypes.sessionRevoked, user),
]

const complex = (members: object) => ({ format: 'complex', ...members })
const opaque = { format: 'opaque', id: session }

const nest = (levels: number): unknown => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`)

/** Subjects that are malformed, of no format that could match, or of another issuer. */
const wrongSubjects: readonly unknown[] = [
  ...[null, 'text', 7, [], [user], {}, { iss: issuer.issuer, sub: victim }],
  ...[
    { ...user, format: 'ISS_SUB' },
    { ...user, format: ['iss_sub'] },
    { ...user, more: 1 },
    { ...user, sub: '' },
  ],
  ...[
    { ...user, iss: 'https://another.example' },
    { ...user, iss: transmitter.issuer },
    { ...user, sub: 7 },
  ],
  ...[
    { ...user, iss: `${issuer.issuer}/` },
    { ...user, iss: `${issuer.issuer}#email` },
    { ...user, iss: null },
  ],
  ...[
    { format: 'aliases', identifiers: [user] },
    { format: 'jwt_id', iss: issuer.issuer, jti: 'j' },
  ],
  ...[{ format: 'email', email: 'no address' }, { format: 'email', email: ['a@b.example'] }, { format: 'email' }],
  ...[{ format: 'did', url: 'did:x:y' }, { format: 'phone_number', phone_number: '+1' }, { format: 'opaque' }],
  ...[
    complex({}),
    complex({ device: opaque }),
    complex({ user, device: opaque }),
    complex({ user: complex({ user }) }),
  ],
  ...[complex({ user, session: user }), complex({ user, session: '' }), complex({ user: null }), complex({ user: [] })],
  ...[complex({ user, tenant: opaque }), complex({ session: { ...opaque, id: '' } }), complex({ user: opaque })],
]

const types = [
  eventTypes.sessionRevoked,
  eventTypes.accountDisabled,
  eventTypes.tokenClaimsChange,
  eventTypes.credentialChange,
]

const goodEvents: Readonly<Record<string, object>> = {
  [eventTypes.tokenClaimsChange]: { claims: { role: 'x' } },
  [eventTypes.credentialChange]: { credential_type: 'password', change_type: 'update' },
}

const wrongEvents: readonly (readonly [type: string, event: Members])[] = [
  ...types.map((type) => [type, { ...goodEvents[type], subject: { ...user, sub: other } }] as const),
  ...types.map((type) => [type, { ...goodEvents[type], event_timestamp: 'yesterday' }] as const),
  ...[{}, { claims: {} }, { claims: [] }, { claims: 'role' }].map((event) => [types[2] ?? '', event] as const),
  ...[{}, { credential_type: 'password' }, { credential_type: 7, change_type: 'update' }].map(
    (event) => [types[3] ?? '', event] as const,
  ),
  [types[3] ?? '', { credential_type: 'password', change_type: 'Update' }],
]

const ofEvents: readonly Forge[] = [
  ...types.flatMap((type): readonly Forge[] => {
    const events = { [type]: goodEvents[type] ?? {} }
    const rows = type === eventTypes.sessionRevoked ? forgeries('secevent+jwt') : forgeries('secevent+jwt').slice(-18)
    return rows.map((forge) => (sign) => forge((claims, header) => sign({ events, ...claims }, header)))
  }),
  ...[{ sub: victim }, { exp: seconds() + 60 }, { sub: '' }, { exp: 'x' }, { toe: 'x' }].map(
    (claims): Forge =>
      (sign) =>
        sign(claims),
  ),
  ...wrongSubjects.map(
    (subject): Forge =>
      (sign) =>
        sign({ sub_id: subject }),
  ),
  ...wrongEvents.map(
    ([type, event]): Forge =>
      (sign) =>
        sign({ events: { [type]: event } }),
  ),
  (sign) => sign({ events: { [eventTypes.sessionRevoked]: { nested: nest(32) } } }),
  // Deeper than the stack in two places, in as many bytes as a token may have: their comparison would fail.
  (sign) => {
    const deep = { ...user, nested: nest(1_300) }
    return sign({ sub_id: deep, events: { [eventTypes.sessionRevoked]: { subject: deep } } })
  },
  () => issuer.sign({ sub: victim }),
  () => signLogout({ sub: victim }),
  async () => '',
  async () => 'x'.repeat(9_000),
]

const countRows = async (): Promise<number> =>
  Number((await database.query<{ count: string }>('select count(*) from logouts')).rows[0]?.count)

t.test('200 forged, misaddressed and malformed logout and security event tokens change nothing', async (t) => {
  const jwt = await issuer.sign({ sub: victim, sid: session })
  t.equal(await statusOf(gateway, jwt), 200)
  const before = await countRows()
  const fetches = issuer.asked.length + transmitter.asked()
  const startedMs = performance.now()
  t.ok(ofLogouts.length + ofEvents.length >= 200, `${ofLogouts.length} and ${ofEvents.length} rows`)
  for (const [index, forge] of ofLogouts.entries()) {
    const token = await forge((claims, header) => signLogout({ sub: victim, sid: session, ...claims }, header))
    const { status, text } = await push(gateway, token)
    t.same([status, text], [400, '{"error":"invalid_request"}\n'], `logout ${index}`)
  }
  for (const [index, forge] of ofEvents.entries()) {
    const events = { [eventTypes.sessionRevoked]: {} }
    const token = await forge((claims, header) => transmitter.sign({ sub_id: user, events, ...claims }, header))
    const { status, json } = await pushEvent(gateway, token)
    t.equal(status, 400, `event ${index}`)
    t.match(json(), { err: /^(?:invalid_(?:request|key|issuer|audience)|access_denied)$/ }, `event ${index}`)
  }
  t.equal(await countRows(), before)
  t.equal(await statusOf(gateway, jwt), 200)
  const asked = issuer.asked.length + transmitter.asked() - fetches
  const halfMinutes = Math.ceil((performance.now() - startedMs) / 30_000)
  t.ok(asked <= 2 * halfMinutes, `${asked} fetches of keys`)
})

t.test('a replay moves nothing, however often and wherever it comes', async (t) => {
  const at = seconds() - 5
  const token = await transmitter.tell(eventTypes.accountDisabled, user, { event_timestamp: at }, { iat: at })
  const logout = await signLogout({ sub: victim, iat: at })
  t.equal((await pushEvent(gateway, token)).status, 202)
  const rows = await database.query('select * from logouts')
  const audited = await database.query('select count(*) from audit_events')
  for (let count = 0; count < 20; count += 1) {
    t.equal((await pushEvent(gateway, token)).status, 202)
    t.equal((await push(gateway, logout)).status, 200)
  }
  t.same((await database.query('select * from logouts')).rows, rows.rows)
  t.same((await database.query('select count(*) from audit_events')).rows, audited.rows)
  t.equal(await statusOf(gateway, await issuer.sign({ sub: victim, iat: at })), 401)
  t.equal(await statusOf(gateway, await issuer.sign({ sub: victim, iat: at + 1 })), 200)
})

t.test('a signal is not a credential', async (t) => {
  t.equal(await statusOf(gateway, await issuer.sign({ sub: other })), 200, 'of the same subject')
  for (const typ of ['secevent+jwt', 'JWT', 'at+jwt', 'application/at+jwt']) {
    const claims = { sub: other, events: { [eventTypes.verification]: {} }, sub_id: opaque }
    t.equal(await statusOf(gateway, await issuer.sign(claims, { typ })), 401, typ)
  }
})
