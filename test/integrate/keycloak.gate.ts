import pg from 'pg'
import t, { type Test } from 'tap'
import { claimsSettings, groupRules, organizationsOf, writePolicies } from '../support/claims-gateway.ts'
import { call } from '../support/client.ts'
import { startEndlessUpstream } from '../support/endless-upstream.ts'
import { parseEvents } from '../support/event-streams.ts'
import { anyPort, startTestGateway, type TestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { type Keycloak, keycloakLack, startKeycloak, type TokenAnswer } from '../support/keycloak.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { statusOf } from '../support/logout-fixture.ts'
import { type ReadAnswer, readAnswer } from '../support/streams.ts'
import { eventAudience, eventTypes, pushSecret } from '../support/transmitter.ts'
import { bearer, oauth, patience, startTestWorld, type TestWorld } from '../support/world.ts'

const mapper = (protocolMapper: string, config: object) => ({
  name: protocolMapper,
  protocol: 'openid-connect',
  protocolMapper,
  config: { 'access.token.claim': 'true', ...config },
})
const groups = mapper('oidc-group-membership-mapper', {
  'claim.name': 'groups',
  'full.path': 'true',
  'lightweight.claim': 'true',
})
const subject = mapper('oidc-sub-mapper', { 'lightweight.claim': 'true' })
const audience = mapper('oidc-audience-mapper', { 'included.custom.audience': 'https://api.example' })
const lightweight = { 'client.use.lightweight.access.token.enabled': 'true' }
/** A client by which users sign in with a password. */
const publicClient = { publicClient: true, directAccessGrantsEnabled: true }
const user = (name: string, more: object) => ({
  username: name,
  email: `${name}@example.com`,
  emailVerified: true,
  firstName: name,
  lastName: 'Example',
  enabled: true,
  credentials: [{ type: 'password', value: name }],
  ...more,
})

const realm = {
  realm: 'tests',
  enabled: true,
  sslRequired: 'none',
  attributes: { 'ssf.transmitterEnabled': 'true' },
  adminEventsEnabled: true,
  eventsEnabled: true,
  eventsListeners: ['jboss-logging', 'ssf-events'],
  organizationsEnabled: true,
  organizations: [
    {
      name: 'globex',
      alias: 'globex',
      domains: [{ name: 'globex.example' }],
      members: [{ username: 'ada', membershipType: 'UNMANAGED' }],
    },
  ],
  groups: [{ name: 'acme', subGroups: [{ name: 'org-member' }, { name: 'org-admin' }] }],
  clients: [
    { clientId: 'light', ...publicClient, attributes: lightweight, protocolMappers: [groups, subject] },
    { clientId: 'nameless', ...publicClient, attributes: lightweight, protocolMappers: [groups] },
    { clientId: 'plain', ...publicClient },
    { clientId: 'untold', ...publicClient, protocolMappers: [audience] },
    { clientId: 'stranger', ...publicClient, protocolMappers: [groups, subject] },
    { clientId: 'importer', secret: 'importer', serviceAccountsEnabled: true, protocolMappers: [groups] },
  ],
  users: [
    user('ada', { groups: ['/acme/org-member'] }),
    user('ben', { groups: ['/acme/org-admin'] }),
    user('eve', {}),
    {
      username: 'service-account-importer',
      enabled: true,
      serviceAccountClientId: 'importer',
      groups: ['/acme/org-admin'],
    },
  ],
}

testUnlessLacking(t, 'tokens, logouts and security events of Keycloak', tryKeycloak, keycloakLack)

async function tryKeycloak(t: Test): Promise<void> {
  const keycloak = await startKeycloak(t, realm)
  await t.test('lightweight tokens', (t) => tryTokens(t, keycloak))
  const fixture = await startSessionsFixture(t, keycloak)
  await t.test('logouts', (t) => tryLogouts(t, keycloak, fixture))
  await t.test('security events', (t) => tryEvents(t, keycloak, fixture))
}

const signIn = ({ requestToken }: Keycloak, client_id: string, name: string, scope = 'openid'): Promise<TokenAnswer> =>
  requestToken({ client_id, grant_type: 'password', username: name, password: name, scope })

const readClaims = (jwt: string) => JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString())

async function tryTokens(t: Test, keycloak: Keycloak): Promise<void> {
  const upstream = await startHttpUpstream(t, (request, response) => response.end(JSON.stringify(request.headers)))
  const rules = [...groupRules, { claim: '/organization', matches: '{organization}', role: 'org-member' }]
  const { directory } = writePolicies(t, organizationsOf(keycloak.issuer))
  const gateway = await startTestGateway(t, {
    upstreams: { platform: { url: upstream.url } },
    settings: {
      ...claimsSettings(keycloak.issuer, {
        audience: { azp: ['light', 'nameless', 'importer', 'plain'] },
        tokens: { bearer: true },
        directoryRules: rules,
        jwksUri: undefined,
      }),
      policies: { directory },
    },
  })
  const ask = (jwt: string, method = 'GET') => call(gateway.public, { method, path: '/datasets', headers: bearer(jwt) })

  await t.test('a lightweight token without aud passes as Bearer, with the role of its group', async (t) => {
    const { access_token: jwt } = await signIn(keycloak, 'light', 'ada')
    const claims = readClaims(jwt)
    t.match(claims, { aud: undefined, email: undefined, azp: 'light', groups: ['/acme/org-member'] })
    const { status, json } = await ask(jwt)
    t.equal(status, 200)
    const identity = readClaims(json()['x-gateway-identity'])
    t.match(identity, { sub: `${keycloak.issuer}|${claims.sub}`, organization: { id: 7, role: 'org-member' } })
    t.notMatch(JSON.stringify(json()), jwt)
    t.match((await ask(jwt, 'POST')).json(), { error: { check: 'role' } })
    t.equal((await ask((await signIn(keycloak, 'light', 'ben')).access_token, 'POST')).status, 200)
  })

  await t.test('a client has the role of the group of its service account', async (t) => {
    const grant = { client_id: 'importer', client_secret: 'importer', grant_type: 'client_credentials' }
    const { access_token: jwt } = await keycloak.requestToken(grant)
    const { status, json } = await ask(jwt, 'POST')
    t.equal(status, 200)
    t.match(readClaims(json()['x-gateway-identity']), {
      user: { type: 'client-managed' },
      organization: { role: 'org-admin' },
    })
  })

  await t.test('a member of an organization has its role', async (t) => {
    const { access_token: jwt } = await signIn(keycloak, 'plain', 'ada', 'openid organization')
    t.match(readClaims(jwt), { organization: ['globex'], groups: undefined })
    const { status, json } = await ask(jwt)
    t.equal(status, 200)
    t.match(readClaims(json()['x-gateway-identity']), { organization: { id: 8, role: 'org-member' } })
    t.equal((await ask((await signIn(keycloak, 'plain', 'ben', 'openid organization')).access_token)).status, 403)
  })

  await t.test('ID tokens, refresh tokens, and those of other clients or without a subject are 401', async (t) => {
    const { id_token: id = '', refresh_token: refresh = '' } = await signIn(keycloak, 'light', 'ben')
    t.match(readClaims(id), { typ: 'ID', azp: 'light' })
    t.match(readClaims(refresh), { typ: 'Refresh', azp: 'light' })
    const { access_token: nameless } = await signIn(keycloak, 'nameless', 'ben')
    t.match(readClaims(nameless), { sub: undefined, azp: 'nameless', groups: ['/acme/org-admin'] })
    const { access_token: foreign } = await signIn(keycloak, 'stranger', 'ben')
    t.match(readClaims(foreign), { azp: 'stranger', groups: ['/acme/org-admin'] })
    for (const jwt of [id, refresh, nameless, foreign]) t.equal((await ask(jwt)).status, 401)
  })
}

/** Two replicas that hear of logouts and security events at Keycloak, the first from Keycloak itself. */
async function startReplicas(t: Test, { issuer, administer }: Keycloak, world: TestWorld) {
  const upstream = await startEndlessUpstream(t)
  const start = (delivery: object = { push: { bearer: pushSecret } }) =>
    startTestGateway(t, {
      world,
      upstreams: { agents: { url: upstream.url } },
      settings: {
        database: { url: world.databaseUrl, ...patience },
        listeners: { public: anyPort, decision: anyPort, admin: anyPort, signals: anyPort },
        issuers: [{ issuer, audience: 'https://api.example', logout: { audience: 'page' }, maxTokenLifeMs: 3_600_000 }],
        transmitters: [{ name: 'keycloak', issuer, audience: eventAudience, ...delivery }],
      },
    })
  const [first, second] = [await start(), await start()]
  await administer('POST', '/clients', {
    clientId: 'page',
    ...publicClient,
    protocolMappers: [audience],
    attributes: {
      'backchannel.logout.url': `${first.signals}/backchannel-logout`,
      'backchannel.logout.session.required': 'true',
    },
  })
  return { first, second, start }
}

async function startSessionsFixture(t: Test, keycloak: Keycloak) {
  const world = await startTestWorld(t)
  const { first, second, start } = await startReplicas(t, keycloak, world)
  const replicas = [first, second]
  const database = new pg.Pool({ connectionString: world.databaseUrl, max: 1 })
  t.teardown(() => database.end())

  const isAccepted = async (jwt: string): Promise<boolean> => {
    const statuses = await Promise.all(replicas.map((replica) => statusOf(replica, jwt)))
    return statuses.every((status) => status === 200)
  }

  /** Signs in; the first time makes a member of acme. */
  const enter = async (name: string, client = 'page'): Promise<Session> => {
    let answer = await signIn(keycloak, client, name)
    await until(async () => {
      if (await isAccepted(answer.access_token)) return true
      // A JWT of the second of a logout is refused.
      answer = await signIn(keycloak, client, name)
      return false
    }, 'sign-in')
    const { access_token: jwt, refresh_token: refresh = '' } = answer
    const { sub, sid } = readClaims(jwt)
    await database.query(
      `insert into role_assignments (user_id, organization_id, role)
       select user_id, $1, 'org-member' from user_identities where subject = $2
       on conflict do nothing`,
      [world.organizations.acme.id, sub],
    )
    const path = `/agent/${world.agents.acme}/responses`
    const open = async (replica: TestGateway): Promise<ReadAnswer> => {
      const stream = await readAnswer(replica.public + path, oauth({ jwt }))
      if (stream.status !== 200) return open(replica) // the role is not felt there yet
      return stream
    }
    return { client, jwt, refresh, sub, sid, streams: await Promise.all(replicas.map(open)) }
  }

  const leave = ({ client, refresh }: Session): Promise<unknown> =>
    fetch(`${keycloak.issuer}/protocol/openid-connect/logout`, {
      method: 'POST',
      body: new URLSearchParams({ client_id: client, refresh_token: refresh }),
    })

  const revoke = async ({ client, refresh }: Session): Promise<unknown> => {
    await fetch(`${keycloak.issuer}/protocol/openid-connect/revoke`, {
      method: 'POST',
      body: new URLSearchParams({ client_id: client, token: refresh, token_type_hint: 'refresh_token' }),
    })
    return keycloak.requestToken({ client_id: client, grant_type: 'refresh_token', refresh_token: refresh })
  }

  const isOut = async (t: Test, { jwt, streams }: Session): Promise<void> => {
    for (const stream of streams) {
      const last = parseEvents(await stream.whole()).at(-1)
      t.match(JSON.parse(last?.data ?? '{}'), {
        type: 'response.failed',
        response: { metadata: { x_service_error_code: 'access_revoked' } },
      })
    }
    for (const replica of replicas) t.equal(await statusOf(replica, jwt), 401)
  }

  const isIn = async (t: Test, { jwt, streams }: Session): Promise<void> => {
    for (const replica of replicas) t.equal(await statusOf(replica, jwt), 200)
    for (const stream of streams) {
      const { length } = stream.text()
      await until(() => stream.text().length > length, 'further events')
    }
  }
  return { first, start, enter, leave, revoke, isOut, isIn }
}

type SessionsFixture = Awaited<ReturnType<typeof startSessionsFixture>>

type Session = Readonly<{
  client: string
  jwt: string
  refresh: string
  sub: string
  sid: string
  streams: readonly ReadAnswer[]
}>

async function tryLogouts(
  t: Test,
  { administer }: Keycloak,
  { first, enter, leave, revoke, isOut, isIn }: SessionsFixture,
) {
  await t.test('an administrator signs a user out: JWTs are 401 and streams end, on every replica', async (t) => {
    const [mine, another, other] = [await enter('ada'), await enter('ada'), await enter('ben')]
    await administer('POST', `/users/${mine.sub}/logout`)
    await isOut(t, mine)
    await isOut(t, another)
    await isIn(t, other)
    await isIn(t, await enter('ada'))
  })

  await t.test('a session ends by itself, and the other sessions of the user go on', async (t) => {
    const [mine, another] = [await enter('ada'), await enter('ada')]
    await administer('DELETE', `/sessions/${mine.sid}`)
    await isOut(t, mine)
    await isIn(t, another)
  })

  await t.test('a user signs out', async (t) => {
    const [mine, revoked, other] = [await enter('ada'), await enter('ada'), await enter('ben')]
    await t.rejects(revoke(revoked), { message: /invalid_grant/ })
    await leave(mine)
    await isOut(t, mine)
    await isIn(t, other)
    await isIn(t, revoked)
  })

  const { text } = await call(first.admin, { path: '/metrics' })
  t.match(text, /sallyport_logouts_total\{outcome="stored"[^}]*\} 4/)
  t.notMatch(text, /sallyport_logouts_total\{outcome="refused"/)
}

const requested = { events_requested: [eventTypes.sessionRevoked, eventTypes.credentialChange] }

/** Tries the security events of a client that has no address for logouts. */
async function tryEvents(t: Test, keycloak: Keycloak, fixture: SessionsFixture) {
  const { first, start, enter, leave, revoke, isOut, isIn } = fixture
  const { administer, requestToken } = keycloak
  const endpoint = `${first.signals}/ssf/keycloak`
  await administer('POST', '/clients', {
    clientId: 'gateway',
    secret: 'gateway',
    serviceAccountsEnabled: true,
    optionalClientScopes: ['ssf.read', 'ssf.manage'],
    attributes: {
      'ssf.enabled': 'true',
      'ssf.defaultSubjects': 'ALL',
      'ssf.streamAudience': eventAudience,
      'ssf.validPushUrls': endpoint,
      // On a busy machine a commit takes a while, and an event that failed is sent again much later.
      'ssf.pushEndpointSocketTimeoutMillis': '15000',
    },
  })
  await administer('POST', '/ssf/clients/gateway/stream', {
    ...requested,
    delivery: { method: 'urn:ietf:rfc:8935', endpoint_url: endpoint, authorization_header: `Bearer ${pushSecret}` },
  })
  const other = await enter('ben', 'untold')
  const enterTwice = async () => [await enter('eve', 'untold'), await enter('eve', 'untold')] as const

  await t.test('a user signs out of one session', async (t) => {
    const [mine, another] = await enterTwice()
    await leave(mine)
    await isOut(t, mine)
    await isIn(t, another)
  })

  await t.test('an application revokes its token: Keycloak tells nothing, and the JWT counts on', async (t) => {
    const [revoked, another] = await enterTwice()
    await t.rejects(revoke(revoked), { message: /invalid_grant/ })
    await leave(another)
    await isOut(t, another)
    await isIn(t, revoked)
  })

  await t.test('a new password ends all sessions of the user', async (t) => {
    const sessions = await enterTwice()
    const credential = { type: 'password', value: 'eve', temporary: false }
    await administer('PUT', `/users/${sessions[0].sub}/reset-password`, credential)
    for (const session of sessions) await isOut(t, session)
    await isIn(t, await enter('eve', 'untold'))
  })

  await t.test('an administrator signs a user out of all sessions', async (t) => {
    const sessions = await enterTwice()
    await administer('POST', `/users/${sessions[0].sub}/logout`)
    for (const session of sessions) await isOut(t, session)
    await isIn(t, await enter('eve', 'untold'))
  })

  await t.test('a verification event comes, and none was refused', async (t) => {
    await administer('POST', '/ssf/clients/gateway/stream/verify')
    const read = async (): Promise<string> => (await call(first.admin, { path: '/metrics' })).text
    await until(async () => /event="verification",outcome="noted"[^}]*\} [1-9]/.test(await read()), 'it')
    t.notMatch(await read(), /sallyport_security_events_total\{[^}]*outcome="refused"/)
  })

  await t.test('a gateway polls the events', async (t) => {
    await administer('DELETE', '/ssf/clients/gateway/stream')
    const { delivery } = await administer('POST', '/ssf/clients/gateway/stream', {
      ...requested,
      delivery: { method: 'urn:ietf:rfc:8936' },
    })
    const client = { client_id: 'gateway', client_secret: 'gateway', grant_type: 'client_credentials' }
    const { access_token: bearer } = await requestToken({ ...client, scope: 'ssf.read ssf.manage' })
    await start({ poll: { endpoint: delivery.endpoint_url, bearer, returnImmediately: true, everyMs: 500 } })
    const [mine, another] = await enterTwice()
    await leave(mine)
    await isOut(t, mine)
    await isIn(t, another)
  })

  await isIn(t, other)
}
