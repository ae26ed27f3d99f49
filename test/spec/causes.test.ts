import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { causes } from '../../gateway/base/errors/causes.ts'
import { codeOf, listRefusals, type RefusalCause } from '../../gateway/base/errors/gateway-error.ts'
import { describeCause } from '../../gateway/base/errors/remedies.ts'
import { readAudit } from '../support/audit.ts'
import { addPeople, canary, changeHeader, guessToken, startKeyedIssuer } from '../support/cause-people.ts'
import { type Call, call, callRaw, type JsonValue } from '../support/client.ts'
import { openRawClient, until } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'
import {
  type CauseFixture,
  type CauseGateway,
  credentialCookie,
  floodMs,
  floodWave,
  guesses,
  startCauseFixture,
} from './cause-fixture.ts'

const world = await startTestWorld(t)
const { users, organizations, clusters, agents } = world
const { robot } = world.serviceAccounts
const issuer = await startKeyedIssuer(t)
const people = await addPeople(t, world, issuer.issuer)
const fixture: CauseFixture = await startCauseFixture(t, world, issuer.issuer)

type Told = Readonly<{
  id: string
  status: number
  headers: Readonly<Record<string, unknown>>
  text: string
}>

type Provoke = (id: string, gateway: CauseGateway) => Promise<Told>

type Row = Readonly<{
  provoke: Provoke
  on?: keyof CauseFixture['gateways']
  /** The outcome on the line of the audit: a decision is written down before its upstream is asked. */
  audit?: 'refused' | 'allowed' | 'none'
}>

/** All credentials that were sent, and the parts of them that are secret. */
const secrets = new Set<string>([canary])
function noteSecrets({ headers = {} }: Call): void {
  for (const value of Object.values(headers).flat())
    for (const word of value.split(/[ .]/)) if (word.length > 30) secrets.add(word)
}

async function ask(origin: string, id: string, request: Call): Promise<Told> {
  noteSecrets(request)
  const headers = { 'x-request-id': id, ...request.headers }
  const { status, headers: told, text } = await call(origin, { ...request, headers })
  return { id: String(told['x-request-id']), status, headers: told, text }
}

/** The bytes as they are; a request that cannot be read has an id of the gateway's. */
async function askRaw(origin: string, bytes: string): Promise<Told> {
  return readRaw(await callRaw(origin, Buffer.from(bytes, 'latin1'), 100))
}

function readRaw(answer: string): Told {
  const [head = '', text = ''] = answer.split('\r\n\r\n')
  const [line = '', ...lines] = head.split('\r\n')
  const headers = Object.fromEntries(
    lines.map((header) => [header.split(': ')[0]?.toLowerCase(), header.replace(/^[^:]*: /, '')]),
  )
  return { id: String(headers['x-request-id']), status: Number(line.split(' ')[1]), headers, text }
}

const wanted =
  (request: Call): Provoke =>
  (id, { public: origin }) =>
    ask(origin, id, request)

const get = (path: string, headers: Call['headers'] = {}): Provoke => wanted({ path, headers })
const post = (path: string, headers: Call['headers'], body: string): Provoke =>
  wanted({ method: 'POST', path, headers: { 'content-type': 'application/json', ...headers }, body })

const raw =
  (lines: readonly string[], body = ''): Provoke =>
  (id, { public: origin }) =>
    askRaw(origin, `${[...lines, `x-request-id: ${id}`, 'connection: close'].join('\r\n')}\r\n\r\n${body}`)

const target = (text: string): Row => ({ provoke: raw([`GET ${text} HTTP/1.1`, 'host: gateway']) })
const headed = (...lines: readonly string[]): Row => ({ provoke: raw(['GET /open/x HTTP/1.1', ...lines]) })

/** With a JWT of an own issuer, whose claims or header are unusual. */
const claiming = (claims: Readonly<Record<string, unknown>>, header: object = {}): Row => ({
  provoke: async (id, { public: origin }) =>
    ask(origin, id, { path: '/public/x', headers: oauth({ jwt: await issuer.sign(claims, header) }) }),
})
const credentialed = (headers: Call['headers']): Row => ({ provoke: get('/public/x', headers) })

const events = { accept: 'text/event-stream', origin: 'https://foreign.example' }
const joining = (subprotocols: string): Row => ({
  provoke: get('/socket', {
    ...{ connection: 'upgrade', upgrade: 'websocket', 'sec-websocket-protocol': subprotocols },
    ...{ 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==', 'sec-websocket-version': '13' },
  }),
})

/** At the decision listener, as a proxy asks. */
const judged = (headers: Call['headers']): Row => ({
  provoke: (id, { decision }) => ask(decision, id, { path: '/authorize', headers: headers ?? {} }),
})

/** After the decision, which the audit has by then. */
const failing = (path: string, headers: Call['headers'] = {}): Row => ({
  provoke: get(path, headers),
  audit: 'allowed',
})

const tokensOf = (organization: number, user: number): string => `/organizations/${organization}/users/${user}/tokens`
const mint = JSON.stringify({ name: 'a', scope: 'api-key' })
const acme = organizations.acme.id
const minting = (user: number, headers: Call['headers'] = oauth(users.admin)): Provoke =>
  post(tokensOf(acme, user), headers, mint)

const first = (text: string): string => text.slice(0, text.indexOf('.'))
const signed = async (subject: string): Promise<Record<string, string>> =>
  oauth({ jwt: await issuer.sign({ sub: subject }) })
const ghost = await signed('ghost')
const leaver = await signed('leaver')
const expelled = await signed('expelled')
const usual = await issuer.sign()
const { member, homeless } = users

/** A new token each time, since a known absence costs no attempt. */
const guessing: Provoke = (id, { public: origin }) =>
  ask(origin, id, { path: '/public/x', headers: bearer(guessToken(randomInt(1e6, 1e9))), localAddress: '127.0.0.9' })

/** Asks while a lock holds the lookups and a flood of the same address has filled their queue. */
const askInFlood: Provoke = async (id, gateway) => {
  const client = await people.database.connect()
  const sockets: Socket[] = []
  try {
    await client.query('begin; lock table auth_access_tokens in access exclusive mode')
    const { hostname, port } = new URL(gateway.public)
    for (let count = floodWave; count <= guesses; count += floodWave) {
      while (sockets.length < count) {
        const socket = connect({ host: hostname, port: Number(port), localAddress: '127.0.0.9' })
        socket.on('error', () => undefined)
        const authorization = `authorization: Bearer ${guessToken(1_000_000_000 + sockets.length)}`
        socket.write(`GET /public/x HTTP/1.1\r\nhost: a\r\n${authorization}\r\n\r\n`)
        sockets.push(socket)
      }
      await until(
        async () => {
          const { text } = await call(gateway.admin, { path: '/metrics' })
          const read = (name: string): number => Number(text.split(`\n${name} `)[1]?.split('\n')[0] ?? 0)
          return read('sallyport_requests_in_flight') + read('sallyport_unknown_tokens_total{outcome="shed"}') >= count
        },
        'the flood',
        floodMs,
      )
    }
    // In a flood the console keeps one request of an address in 10 ms.
    await sleep(20)
    return await guessing(id, gateway)
  } finally {
    for (const socket of sockets) socket.destroy()
    await client.query('rollback')
    client.release()
  }
}

/** Sends a request that its upstream holds, and ends its rights meanwhile. */
const losing =
  (path: string, jwt: Promise<string>, end: (gateway: CauseGateway) => Promise<unknown>): Provoke =>
  async (id, gateway) => {
    const told = ask(gateway.public, id, { path, headers: oauth({ jwt: await jwt }) })
    await until(() => fixture.upstreamIds().includes(id), 'the request at its upstream')
    await end(gateway)
    return told
  }
const disable = (id: number) => (): Promise<unknown> =>
  people.database.query('update users set disabled_at = now() where id = $1', [id])

const rows = {
  credential_missing: credentialed({}),
  credential_repeated: credentialed({ 'x-oauth-access-token': [member.jwt, member.jwt] }),
  jwt_in_authorization: credentialed(bearer(member.jwt)),
  carrier_not_allowed: { ...claiming({}), on: 'narrow' },
  token_in_oauth_header: credentialed(oauth({ jwt: robot.apiKey })),
  malformed: credentialed(oauth({ jwt: 'a-secret-that-is-not-a-token-at-all' })),
  encrypted: credentialed(
    oauth({ jwt: `${Buffer.from('{"alg":"dir","enc":"A256GCM"}').toString('base64url')}..aXY.dGV4dA.dGFn` }),
  ),
  jwt_too_long: claiming({ roles: 'x'.repeat(16_384) }),
  algorithm_not_allowed: credentialed(oauth({ jwt: changeHeader(usual, { alg: 'HS256' }) })),
  wrong_type: claiming({}, { typ: 'logout+jwt' }),
  critical_extension: credentialed(oauth({ jwt: changeHeader(usual, { crit: ['exp'] }) })),
  unknown_issuer: claiming({ iss: 'https://another-realm.example' }),
  // Before any other unknown key: the gateway asks its issuer for one of them in 30 s.
  key_withdrawn: {
    provoke: losing('/held/hangs', issuer.signWithSpare(), async (gateway) => {
      issuer.withdrawSpare()
      await get('/public/x', oauth({ jwt: await issuer.sign({}, { kid: 'unheard-of' }) }))('new-key', gateway)
    }),
    audit: 'allowed',
  },
  unknown_key: claiming({}, { kid: 'unheard-of' }),
  ambiguous_key: credentialed(oauth({ jwt: await issuer.signWithoutKid() })),
  bad_signature: credentialed(
    oauth({ jwt: `${usual.slice(0, usual.lastIndexOf('.'))}.${Buffer.alloc(64, 1).toString('base64url')}` }),
  ),
  wrong_audience: claiming({ aud: 'another-service' }),
  subject_invalid: claiming({ sub: null }),
  expiry_missing: claiming({ exp: null }),
  time_malformed: claiming({ nbf: 'yesterday' }),
  proof_missing: claiming({ cnf: { jkt: 'x' } }),
  not_an_access_token: claiming({ events: {} }),
  expired: claiming({ exp: issuer.seconds - 60 }),
  not_yet_valid: claiming({ nbf: issuer.seconds + 3_600 }),
  issued_in_future: claiming({ iat: issuer.seconds + 3_600 }),
  life_unbounded: claiming({ iat: null, exp: issuer.seconds + 200_000 }),
  signed_out: {
    provoke: async (id, gateway) => {
      await people.database.query(
        `insert into logouts (issuer, subject, at, expires_at) values ($1, 'signed-out', now(), now() + interval '1 day')`,
        [issuer.issuer],
      )
      const asking = get('/public/x', await signed('signed-out'))
      await until(async () => (await asking('before', gateway)).status === 401, 'the logout')
      return asking(id, gateway)
    },
  },
  token_checksum: credentialed(
    bearer(`${first(robot.apiKey)}.${Buffer.from(`${'a'.repeat(40)}1`).toString('base64url')}`),
  ),
  token_unknown: credentialed(bearer(robot.revoked)),
  token_secret_wrong: credentialed(bearer(`${first(robot.apiKey)}.${guessToken(1).split('.')[1]}`)),
  token_expired: credentialed(bearer(robot.expired)),
  token_of_human: credentialed(bearer(people.humanToken)),
  user_declined: claiming({ sub: 'again', email: 'disabled@causes.example' }),
  user_conflict: claiming({ sub: 'disabled' }),
  user_removed: claiming({ sub: 'removed' }),
  user_gone: {
    provoke: losing('/held/hangs', issuer.sign({ sub: 'vanishing' }), disable(people.vanishing)),
    audit: 'allowed',
  },
  session_ended: {
    provoke: losing('/held/hangs', issuer.sign(), () =>
      people.database.query("insert into session_ends (route) values ('causes.held')"),
    ),
    audit: 'allowed',
  },
  minter_gone: {
    provoke: async (id, gateway) => {
      await get('/users/me', leaver)('warm', gateway)
      await people.deleteSilently('users where id = $1', [people.leaver])
      return minting(robot.id, leaver)(id, gateway)
    },
    audit: 'allowed',
  },
  parent_token_gone: {
    provoke: async (id, gateway) => {
      const headers = bearer(people.parent.token)
      await get('/users/me', headers)('warm', gateway)
      await people.deleteSilently('auth_access_tokens where id = $1', [people.parent.id])
      return minting(robot.id, headers)(id, gateway)
    },
    audit: 'allowed',
  },
  membership_lost: {
    provoke: async (id, gateway) => {
      await get('/users/me', expelled)('warm', gateway)
      await people.deleteSilently('role_assignments where user_id = $1', [people.expelled])
      return post(`/organizations/${acme}/switch`, expelled, '')(id, gateway)
    },
    audit: 'allowed',
  },
  organization_header_malformed: credentialed({ ...oauth(member), 'x-organization-id': 'acme' }),
  organization_cookie_malformed: credentialed({ ...oauth(member), cookie: 'current-org-id=acme' }),
  organization_contradiction: {
    provoke: post(`/organizations/${acme}/switch`, { ...oauth(member), 'x-organization-id': '2' }, ''),
  },
  header_not_a_member: credentialed({ ...oauth(member), 'x-organization-id': '999' }),
  cookie_not_a_member: credentialed({ ...oauth(member), cookie: 'current-org-id=999' }),
  host_not_a_member: { provoke: get('/tenant', { ...oauth(member), host: 'nowhere.tenants.example' }) },
  path_not_a_member: { provoke: post('/organizations/999/switch', oauth(member), '') },
  no_organization: { provoke: get('/datasets', oauth(homeless)) },
  role_unknown: { provoke: get('/datasets', ghost) },
  role_too_low: { provoke: get('/datasets', oauth(users.client)) },
  no_organization_for_ability: { provoke: get('/reads', oauth(homeless)) },
  role_ability_missing: { provoke: get('/reads', oauth(users.client)) },
  token_ability_missing: { provoke: get('/writes', bearer(robot.apiKey)) },
  token_read_only: { provoke: post(`/organizations/${acme}/switch`, bearer(robot.apiKey), '') },
  token_line_too_long: { provoke: minting(robot.id, bearer(people.longLine)), audit: 'allowed' },
  account_has_bypass_scope: { provoke: minting(people.bypassing), audit: 'allowed' },
  account_in_foreign_organization: { provoke: minting(people.foreign), audit: 'allowed' },
  account_role_higher: { provoke: minting(people.higher), audit: 'allowed' },
  enterprise_required: {
    provoke: post(tokensOf(organizations.globex.id, 1), oauth(users.outsider), mint),
    audit: 'allowed',
  },
  body_unparseable: { provoke: post(tokensOf(acme, robot.id), oauth(users.admin), '{'), audit: 'allowed' },
  encoding_unsupported: {
    provoke: post(tokensOf(acme, robot.id), { ...oauth(users.admin), 'content-encoding': 'gzip' }, mint),
    audit: 'allowed',
  },
  validation_failure: { provoke: get(`${tokensOf(acme, robot.id)}?page=x`, oauth(users.admin)), audit: 'allowed' },
  resource_id_malformed: { provoke: post('/organizations/acme/switch', oauth(member), '') },
  query_like_guarded_param: { provoke: get('/agents/999?id=1', oauth(member)) },
  resource_unknown: { provoke: get('/agents/999', oauth(member)) },
  resource_foreign: { provoke: get(`/agents/${agents.globex}`, oauth(member)) },
  no_organization_for_resource: { provoke: get(`/agents/${agents.acme}`, oauth(homeless)) },
  resource_private: { provoke: get(`/held-datasets/${world.objects.datasets.acmePrivate}`, oauth(member)) },
  cluster_unknown: { provoke: get('/cluster/999/x', oauth(member)) },
  cluster_foreign: { provoke: get(`/cluster/${clusters.globex}/x`, oauth(member)) },
  user_not_a_member: { provoke: minting(999), audit: 'allowed' },
  token_not_of_user: {
    provoke: wanted({ method: 'DELETE', path: `${tokensOf(acme, robot.id)}/999`, headers: oauth(users.admin) }),
    audit: 'allowed',
  },
  cluster_suspended: { provoke: get(`/cluster/${clusters.suspended}/x`, oauth(member)) },
  cluster_stale: { provoke: get(`/cluster/${clusters.stale}/x`, oauth(member)) },
  cluster_deleting: { provoke: get(`/cluster/${clusters.deleting}/x`, oauth(member)) },
  cluster_address_malformed: { provoke: get(`/cluster/${people.badCluster}/x`, oauth(member)) },
  cluster_unreachable: failing(`/cluster/${clusters.unreachable}/x`, oauth(member)),
  target_not_origin_form: target('http://another/open/x'),
  target_not_visible: target('/open/x#part'),
  target_backslash: target('/open\\x'),
  target_empty_segment: target('/open//x'),
  target_bad_escape: target('/open/%zz'),
  target_bad_utf8: target('/open/%ff'),
  target_nested_escapes: target(`/open/%${'25'.repeat(9)}41`),
  target_hidden_byte: target('/open/%00'),
  target_dot_segment: target('/open/../x'),
  target_encoded_slash: target('/open/a%2fb'),
  target_like_stricter_row: target('/rows/STRICT'),
  target_like_other_id: target('/ids/.../1/2/x'),
  target_like_dot_segment: target('/open/%EF%BC%8E%EF%BC%8E/x'),
  target_with_many_readings: target(`/open/a${'%CC%81'.repeat(31)}`),
  target_too_long: target(`/open/${'a'.repeat(17_000)}`),
  route_not_found: { provoke: get(`/nowhere/${robot.apiKey}?token=${member.jwt}`) },
  method_not_allowed: { provoke: wanted({ method: 'DELETE', path: '/status' }) },
  method_unknown: { provoke: raw(['FROB /open/x HTTP/1.1', 'host: gateway']) },
  http_version: { provoke: raw(['GET /open/x HTTP/2.0', 'host: gateway']) },
  host_malformed: headed('host: a@b'),
  header_misspelt: headed('host: gateway', 'content_length: 0'),
  framing_contradiction: headed('host: gateway', `content-length: ${'0'.repeat(16)}`),
  transfer_encoding_unknown: headed('host: gateway', 'transfer-encoding: gzip'),
  expectation_failed: headed('host: gateway', 'expect: more'),
  headers_too_large: headed('host: gateway', `x-long: ${'a'.repeat(25_000)}`),
  forwarded_head_too_large: headed('host: gateway', `x-long: ${'a'.repeat(21_000)}`),
  headers_malformed: headed('host: gateway', 'no header'),
  body_malformed: {
    provoke: raw(['POST /open/x HTTP/1.1', 'host: gateway', 'transfer-encoding: chunked'], 'no size\r\n'),
    audit: 'allowed',
  },
  body_too_large: { provoke: post('/upload', {}, 'x'.repeat(65)), audit: 'allowed' },
  request_timeout: {
    provoke: raw(['POST /upload HTTP/1.1', 'host: gateway', 'content-length: 10'], 'x'),
    audit: 'allowed',
  },
  original_request_missing: judged({}),
  original_request_contradiction: judged({
    ...{ 'x-forwarded-method': 'GET', 'x-forwarded-uri': '/open/x' },
    ...{ 'x-original-method': 'GET', 'x-original-uri': '/datasets' },
  }),
  original_header_repeated: judged({ 'x-forwarded-method': ['GET', 'PUT'], 'x-forwarded-uri': '/open/x' }),
  original_host_malformed: judged({
    ...{ 'x-forwarded-method': 'GET', 'x-forwarded-uri': '/open/x', 'x-forwarded-host': 'a@b' },
  }),
  credential_cookie_repeated: credentialed({
    cookie: `${credentialCookie}=${usual}; ${credentialCookie}=x`,
    ...events,
  }),
  origin_forbidden: credentialed({ cookie: `${credentialCookie}=${usual}`, ...events }),
  subprotocol_alone: joining(`bearer.jwt.${usual}`),
  subprotocol_repeated: joining(`chat, bearer.jwt.${usual}, bearer.jwt.${usual}`),
  ambiguous_credentials: credentialed({ ...oauth(member), ...bearer(robot.apiKey) }),
  rate_limited: {
    provoke: async (id, gateway) => {
      await get('/once')('before', gateway)
      return get('/once')(id, gateway)
    },
  },
  upstream_unreachable: failing('/unreachable'),
  upstream_no_response: failing('/open/closes'),
  upstream_protocol_error: failing('/open/garbage'),
  upstream_timeout: failing('/slow'),
  upstream_error: failing('/model/page'),
  event_too_large: failing('/model/large'),
  upstream_share_full: {
    on: 'claims',
    provoke: async (id, gateway) => {
      void get('/model/hangs')('held', gateway).catch(() => undefined)
      await until(async () => (await get('/model/page')('before', gateway)).status === 503, 'the only place')
      return get('/model/page')(id, gateway)
    },
    audit: 'allowed',
  },
  upstream_pool_exhausted: {
    on: 'narrow',
    provoke: async (id, gateway) => {
      // Its health checks begin at their own time.
      await until(async () => (await get('/open/x')('before', gateway)).status === 503, 'the last connection')
      return get('/open/x')(id, gateway)
    },
    audit: 'allowed',
  },
  directory_read_only: {
    provoke: post(tokensOf(acme, robot.id), oauth(users.admin), mint),
    on: 'narrow',
    audit: 'allowed',
  },
  directory_unavailable: { ...credentialed(bearer(robot.apiKey)), on: 'dark' },
  issuer_unavailable: { ...claiming({ iss: 'http://127.0.0.1:1' }), on: 'dark' },
  rate_limit_unavailable: { provoke: get('/once'), on: 'dark' },
  internal: { ...target('/open/planted%C3%BC'), on: 'dark' },
  audit_unavailable: { provoke: get('/open/x'), on: 'full', audit: 'none' },
  decision_refused: { provoke: get('/decided-by/pdp/no', oauth(users.admin)) },
  pdp_unusable: { provoke: get('/decided-by/pdp/garbled', oauth(users.admin)) },
  pdp_unanswered: { provoke: get('/decided-by/absent/one', oauth(users.admin)) },
  pdp_circuit_open: {
    provoke: async (id, { public: origin }) => {
      for (let count = 0; count < 5; count++)
        await ask(origin, `${id}.${count}`, { path: `/decided-by/absent/${count}`, headers: oauth(users.admin) })
      return ask(origin, id, { path: '/decided-by/absent/one', headers: oauth(users.admin) })
    },
  },
  pdp_busy: {
    provoke: async (id, { public: origin }) => {
      const headers = oauth(users.admin)
      const held = Array.from({ length: 20 }, (_, count) =>
        ask(origin, `${id}.${count}`, { path: `/decided-by/single/hangs-${count}`, headers }),
      )
      // The first refusal says that the line is full.
      await Promise.any(held)
      const told = await ask(origin, id, { path: '/decided-by/single/hangs', headers })
      // They would count among the requests of a flood.
      await ask(origin, `${id}.free`, { path: '/decided-by/pdp/free', headers })
      await Promise.all(held)
      return told
    },
  },
  too_many_attempts: {
    on: 'narrow',
    provoke: async (id, gateway) => {
      await guessing('before', gateway)
      return guessing(id, gateway)
    },
  },
  route_changed: {
    provoke: async (id, { public: origin }) => {
      const client = await openRawClient(t, origin)
      client.send(
        `POST /moved HTTP/1.1\r\nhost: gateway\r\nx-request-id: ${id}\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n`,
      )
      await client.until(/100 Continue/)
      fixture.moveRoute()
      const text = await client.until(/\r\n\r\n\{.*\}$/)
      return readRaw(text.replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, ''))
    },
    audit: 'allowed',
  },
  // Its lookups hold up what follows on the same gateway.
  claims_incomplete: {
    on: 'claims',
    provoke: async (id, { public: origin }) => {
      const jwt = await issuer.sign({ _claim_names: { groups: 'src1' } })
      return ask(origin, id, { path: '/held/x', headers: oauth({ jwt }) })
    },
  },
  claims_too_many: {
    on: 'claims',
    provoke: async (id, { public: origin }) => {
      const jwt = await issuer.sign({ teams: Array.from({ length: 100 }, (_, index) => `t${index}`) })
      return ask(origin, id, { path: '/held/x', headers: oauth({ jwt }) })
    },
  },
  token_inactive: {
    on: 'claims',
    provoke: get('/held/x', oauth({ jwt: 'an-opaque-token-that-was-revoked' })),
  },
  not_available: {
    on: 'claims',
    provoke: async (id, { public: origin }) =>
      ask(origin, id, { path: '/users/me', headers: oauth({ jwt: await issuer.sign() }) }),
    // The decision is written down before the endpoint answers.
    audit: 'allowed',
  },
  lookups_busy: { provoke: askInFlood },
  gateway_draining: {
    on: 'dark',
    provoke: async (id, { public: origin, admin, child }) => {
      const told = ask(origin, id, { path: '/model/waits' })
      // Another request holds the gateway, in whose last second its console is read.
      ask(origin, `${id}.other`, { path: '/open/hangs' }).catch(() => undefined)
      await until(async () => {
        const { text } = await call(admin, { path: '/metrics' })
        return text.includes('sallyport_streams_open 1\n') && fixture.upstreamIds().includes(`${id}.other`)
      }, 'the open stream')
      child.kill('SIGTERM')
      return told
    },
    audit: 'allowed',
  },
} satisfies Readonly<Record<RefusalCause, Row>>

type Seen = Readonly<{
  cause: RefusalCause
  gateway: CauseGateway
  told: Told
  page: string
  json: string
}>

/** Provokes one cause, and reads the console once it has it. */
async function provoke(cause: RefusalCause, { provoke, on = 'main' }: Row): Promise<Seen> {
  const gateway = fixture.gateways[on]
  const read = async (path: string): Promise<string> => (await call(gateway.admin, { path })).text
  const told = await provoke(`request-${seen.length}`, gateway)
  let json = ''
  await until(async () => {
    json = await read(`/console/requests.json?id=${told.id}`)
    return json.includes(`"cause":"${cause}"`)
  }, `its cause on the console; the client was told ${told.status} ${told.text}`)
  return { cause, gateway, told, page: await read(`/?id=${told.id}`), json }
}

const seen: Seen[] = []

const scopeCauses: readonly RefusalCause[] = ['token_ability_missing', 'token_read_only']

/** RFC 6750 3. One value for each 401 to a credential, so that no guess is told from another. */
const challengeOf = (cause: RefusalCause, status: number): string | undefined => {
  if (cause === 'credential_missing') return 'Bearer'
  if (status === 401) return 'Bearer error="invalid_token"'
  return scopeCauses.includes(cause) ? 'Bearer error="insufficient_scope"' : undefined
}

/** The metrics of each gateway, read after its last cause. */
const metrics = new Map<CauseGateway, string>()

// `Object.entries` loses the type of the keys.
const table = Object.entries(rows) as readonly (readonly [RefusalCause, Row])[]

const lastOn = (gateway: Row['on']): RefusalCause | undefined =>
  table.filter(([, { on }]) => on === gateway).at(-1)?.[0]

t.test('each cause of the catalogues is provoked', async (t) => {
  const plain = listRefusals().flatMap(({ code }) => (Object.values(causes).some(([of]) => of === code) ? [] : [code]))
  t.same(Object.keys(rows).sort(), [...new Set([...Object.keys(causes), ...plain, 'headers_malformed'])].sort())
})

t.test('the console and the metrics name each cause', async (t) => {
  for (const [cause, row] of table) {
    try {
      const one = await provoke(cause, row)
      seen.push(one)
      if (cause === lastOn(row.on)) metrics.set(one.gateway, (await call(one.gateway.admin, { path: '/metrics' })).text)
      const [, requests = ''] = one.page.split('id="requests-table"')
      t.ok(requests.includes(`<code>${cause}</code>`), `${cause}: the page`)
    } catch (error) {
      t.fail(`${cause}: ${(error as Error).message}`)
    }
  }
  for (const { cause, gateway } of seen) {
    const counted = new RegExp(`^sallyport_(?:decisions|malformed_requests)_total\\{.*"${cause}".*\\} [1-9]`, 'm')
    t.ok(counted.test(metrics.get(gateway) ?? ''), `${cause}: the metrics`)
  }
})

t.test('a line of the log names each cause', async (t) => {
  for (const gateway of Object.values(fixture.gateways)) {
    const wanted = seen.filter((one) => one.gateway === gateway)
    const findMissing = (): readonly string[] => {
      const lines = new Set(gateway.log().map(({ requestId, cause }) => `${cause} of ${requestId}`))
      return wanted.map(({ cause, told }) => `${cause} of ${told.id}`).filter((line) => !lines.has(line))
    }
    await until(() => findMissing().length === 0, 'all lines').catch(() => t.same(findMissing(), []))
  }
})

t.test('a line of the audit names each cause: that of the decision, or that of the failure after it', async (t) => {
  const files = new Set(seen.flatMap(({ gateway }) => (gateway === fixture.gateways.full ? [] : [gateway.auditFile])))
  const isThere = (lines: readonly JsonValue[], { cause, told: { id } }: Seen): boolean => {
    const { audit = 'refused' }: Row = rows[cause]
    const ofIt = lines.filter(({ requestId }) => requestId === id)
    return audit === 'none' || ofIt.length >= (audit === 'refused' ? 1 : 2)
  }
  const areThere = (): boolean => {
    const lines = readAudit(...files)
    return seen.every((one) => one.gateway === fixture.gateways.full || isThere(lines, one))
  }
  // The checks below name each missing line.
  await until(areThere, 'all lines').catch(() => undefined)
  const lines = readAudit(...files)
  for (const {
    cause,
    told: { id, status },
  } of seen) {
    const { audit = 'refused' }: Row = rows[cause]
    if (audit === 'none') continue
    const ofIt = lines.filter(({ requestId }) => requestId === id)
    const expected = audit === 'refused' ? { outcome: audit, cause } : { outcome: audit, cause: null }
    t.match(ofIt[0], { audit: 'decision', ...expected }, cause)
    const failures = ofIt.filter((line) => line.audit === 'failure')
    const told = failures.map(({ reason, cause, status }) => [reason, cause, status])
    t.same(told, audit === 'refused' ? [] : [[codeOf(cause), cause, status]], `${cause}: its failure`)
  }
})

t.test('the challenge says whether a credential came, and each 503 of the gateway when to come again', async (t) => {
  for (const { cause, told } of seen) {
    t.equal(told.headers['www-authenticate'], challengeOf(cause, told.status), cause)
    const isOwn = told.status === 503 && cause !== 'upstream_error'
    if (isOwn) t.match(told.headers['retry-after'], /^[1-5]$/, cause)
  }
})

t.test('causes that share a reason answer the client alike', async (t) => {
  const volatile = ['x-request-id', 'date', 'connection', 'content-length', 'keep-alive', 'www-authenticate']
  const answers = new Map<string, Set<string>>()
  for (const { cause, told } of seen) {
    const code = codeOf(cause)
    const headers = Object.entries(told.headers).filter(([name]) => name !== '' && !volatile.includes(name))
    const answer = JSON.stringify([told.status, told.text.replaceAll(told.id, 'ID'), headers.sort()])
    // The surfaces have other shapes, which begin with other members.
    const shape = `${code} ${told.text.split('"', 2)[1]}`
    answers.set(shape, (answers.get(shape) ?? new Set()).add(answer))
    if (cause !== code) t.notMatch(told.text, `"${cause}"`, `the client is not told ${cause}`)
  }
  for (const [code, told] of answers) t.equal(told.size, 1, `${code}: ${[...told].join('\n')}`)
})

/** One process for all: the command takes as long to start as to work. */
const explainEach = `const { runExplainRequest } = await import(${JSON.stringify(new URL('../../dist/gateway/tools/cli/explain-request.js', import.meta.url).href)})
for (const [id, audit, admin] of JSON.parse(process.argv[1])) {
  await runExplainRequest(id, { audit: audit ?? undefined, admin: admin ?? undefined, config: '/no/policy' }).catch((error) => console.log(error.message))
  process.stdout.write('\\0')
}`

let explained = ''

t.test('explain-request names each cause, with its meaning, from the audit and from the admin listener', async (t) => {
  // One gateway has ended by now, so the pages of then are served again.
  const replay = createServer((request, response) =>
    response.end(seen.find(({ told }) => String(request.url).endsWith(`=${told.id}`))?.json),
  )
  await new Promise<void>((resolve) => replay.listen(0, '127.0.0.1', resolve))
  t.teardown(() => replay.close())
  const { port } = replay.address() as AddressInfo // a TCP listener's address is never a string
  const isAudited = ({ cause }: Seen): boolean => (rows[cause] as Row).audit !== 'none'
  const questions = [
    ...seen.filter(isAudited).map((one) => ({ ...one, places: [one.gateway.auditFile, null] })),
    ...seen.map((one) => ({ ...one, places: [null, `http://127.0.0.1:${port}`] })),
  ]
  const asked = questions.map(({ told, places }) => [told.id, ...places])
  const child = spawn(process.execPath, ['--input-type=module', '-e', explainEach, JSON.stringify(asked)], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  child.stdout.on('data', (chunk: Buffer) => {
    explained += chunk.toString()
  })
  await once(child, 'close')
  const answers = explained.split('\0')
  for (const [index, { cause, places }] of questions.entries()) {
    const what = `${cause} of ${places}`
    t.match(answers[index], new RegExp(`\\b${cause}\\b`), what)
    t.ok(answers[index]?.includes(describeCause(cause)?.meaning ?? '?'), `${what}: the meaning`)
  }
})

t.test('no output holds a part of a credential', async (t) => {
  t.ok(secrets.size > 50, 'credentials were sent')
  const outputs: Record<string, string> = {
    explain: explained,
    console: seen.map(({ page }) => page).join(''),
    metrics: [...metrics.values()].join(''),
  }
  for (const [name, gateway] of Object.entries(fixture.gateways)) {
    outputs[`log of ${name}`] = gateway.stdout() + gateway.stderr()
    if (name !== 'full') outputs[`audit of ${name}`] = readFileSync(gateway.auditFile, 'utf8')
  }
  for (const [name, text] of Object.entries(outputs))
    for (const secret of secrets) if (text.includes(secret)) t.fail(`${name} holds ${secret}`)
})
