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
import { patience, statusOf } from '../support/logout-stage.ts'
import { type ReadAnswer, readAnswer } from '../support/streams.ts'
import { bearer, oauth, startTestWorld, type TestWorld } from '../support/world.ts'

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
    { clientId: 'stranger', ...publicClient, protocolMappers: [groups, subject] },
    { clientId: 'importer', secret: 'importer', serviceAccountsEnabled: true, protocolMappers: [groups] },
  ],
  users: [
    user('ada', { groups: ['/acme/org-member'] }),
    user('ben', { groups: ['/acme/org-admin'] }),
    {
      username: 'service-account-importer',
      enabled: true,
      serviceAccountClientId: 'importer',
      groups: ['/acme/org-admin'],
    },
  ],
}

testUnlessLacking(t, 'tokens and logouts of Keycloak', tryKeycloak, keycloakLack)

async function tryKeycloak(t: Test): Promise<void> {
  const keycloak = await startKeycloak(t, realm)
  await t.test('lightweight tokens', (t) => tryTokens(t, keycloak))
  await t.test('logouts', (t) => tryLogouts(t, keycloak))
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

  await t.test('one without aud passes as Bearer, with the role of its group', async (t) => {
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

/** Two replicas that hear of logouts at Keycloak, the first from Keycloak itself. */
async function startReplicas(t: Test, { issuer, administer }: Keycloak, world: TestWorld) {
  const upstream = await startEndlessUpstream(t)
  const start = () =>
    startTestGateway(t, {
      world,
      upstreams: { agents: { url: upstream.url } },
      settings: {
        database: { url: world.databaseUrl, ...patience },
        listeners: { public: anyPort, decision: anyPort, admin: anyPort, signals: anyPort },
        issuers: [{ issuer, audience: 'https://api.example', logout: { audience: 'page' }, maxTokenLifeMs: 3_600_000 }],
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
  return { first, second }
}

async function tryLogouts(t: Test, keycloak: Keycloak): Promise<void> {
  const world = await startTestWorld(t)
  const { first, second } = await startReplicas(t, keycloak, world)
  const database = new pg.Pool({ connectionString: world.databaseUrl, max: 1 })
  t.teardown(() => database.end())

  /** Signs in; the first time makes a member of acme. */
  const enter = async (name: string): Promise<Session> => {
    const answer = await signIn(keycloak, 'page', name)
    const { access_token: jwt, refresh_token: refresh = '' } = answer
    for (const replica of [first, second]) await until(async () => (await statusOf(replica, jwt)) === 200, 'sign-in')
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
    return { jwt, refresh, sub, sid, streams: await Promise.all([first, second].map(open)) }
  }

  const isOut = async (t: Test, { jwt, streams }: Session): Promise<void> => {
    for (const stream of streams) {
      const last = parseEvents(await stream.whole()).at(-1)
      t.match(JSON.parse(last?.data ?? '{}'), {
        type: 'response.failed',
        response: { metadata: { x_service_error_code: 'access_revoked' } },
      })
    }
    for (const replica of [first, second]) t.equal(await statusOf(replica, jwt), 401)
  }

  const isIn = async (t: Test, { jwt, streams }: Session): Promise<void> => {
    for (const replica of [first, second]) t.equal(await statusOf(replica, jwt), 200)
    for (const stream of streams) {
      const { length } = stream.text()
      await until(() => stream.text().length > length, 'further events')
    }
  }

  await t.test('an administrator signs a user out: JWTs are 401 and streams end, on every replica', async (t) => {
    const [mine, another, other] = [await enter('ada'), await enter('ada'), await enter('ben')]
    await keycloak.administer('POST', `/users/${mine.sub}/logout`)
    await isOut(t, mine)
    await isOut(t, another)
    await isIn(t, other)
    await isIn(t, await enter('ada'))
  })

  await t.test('a session ends by itself, and the other sessions of the user go on', async (t) => {
    const [mine, another] = [await enter('ada'), await enter('ada')]
    await keycloak.administer('DELETE', `/sessions/${mine.sid}`)
    await isOut(t, mine)
    await isIn(t, another)
  })

  await t.test('a user signs out', async (t) => {
    const [mine, other] = [await enter('ada'), await enter('ben')]
    await fetch(`${keycloak.issuer}/protocol/openid-connect/logout`, {
      method: 'POST',
      body: new URLSearchParams({ client_id: 'page', refresh_token: mine.refresh }),
    })
    await isOut(t, mine)
    await isIn(t, other)
  })

  const { text } = await call(first.admin, { path: '/metrics' })
  t.match(text, /sallyport_logouts_total\{outcome="stored"[^}]*\} 4/)
  t.notMatch(text, /sallyport_logouts_total\{outcome="refused"/)
}

type Session = Readonly<{ jwt: string; refresh: string; sub: string; sid: string; streams: readonly ReadAnswer[] }>
