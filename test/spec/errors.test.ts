import t, { type Test } from 'tap'
import { type Answer, type Call, call, type JsonValue } from '../support/client.ts'
import { openRawClient, startTestGateway } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { users, serviceAccounts, organizations, agents, clusters } = world

const owner = oauth(users.owner)
const member = oauth(users.member)

/** The same users, but no upstream that answers. */
const withoutUpstreams = await startTestGateway(t, { world })

const withoutDirectory = await startTestGateway(t, {
  world,
  settings: { database: { url: 'postgres://nobody@127.0.0.1:1/nowhere' } },
})

type Surface = 'platform' | 'files' | 'data' | 'model' | 'graphql'
type Expected = Readonly<{ status: number; code: string; check?: string }>

/** A route of each surface, which an org-owner may use. */
const routes: readonly (readonly [surface: Surface, call: Call])[] = [
  ['platform', { path: '/datasets' }],
  ['platform', { path: `/clusters/${clusters.healthy}/proxy/x` }],
  ['platform', { path: '/users/me' }],
  ['files', { path: '/v1/files' }],
  ['data', { path: '/data/entries' }],
  ['model', { method: 'POST', path: `/agent/${agents.acme}/responses`, body: '{}' }],
  ['model', { method: 'POST', path: `/agent/${agents.acme}/chat/completions`, body: '{}' }],
  ['graphql', { method: 'POST', path: '/graphql', body: '{}' }],
]

const forwarded = routes.filter(([, { path }]) => path !== '/users/me')

const modelTypes: Readonly<Record<number, string>> = {
  429: 'rate_limit_error',
  500: 'server_error',
  503: 'server_error',
}
const graphqlCodes: Readonly<Record<number, string>> = { 401: 'UNAUTHENTICATED', 403: 'FORBIDDEN' }

/** Checks an answer of the gateway against the shape of its surface (SPEC section 7). */
function hasShape(t: Test, surface: Surface, answer: Answer, { status, code, check }: Expected): void {
  t.equal(answer.status, status, `${surface} ${code}`)
  t.match(answer.headers['content-type'], /^application\/json/)
  t.equal(Number(answer.headers['content-length']), Buffer.byteLength(answer.text))
  const body: JsonValue = answer.json()
  switch (surface) {
    case 'platform':
    case 'files': {
      const { success, message, error, ...rest } = body
      t.strictSame([success, rest], [false, {}])
      t.ok(typeof message === 'string' && message.length > 0)
      t.strictSame([error.status, error.code, error.check], [status, code, check])
      t.equal(error.requestId, answer.headers['x-request-id'])
      return
    }
    case 'data': {
      t.strictSame(Object.keys(body), ['detail'])
      t.ok(typeof body.detail === 'string' && body.detail.length > 0)
      return
    }
    case 'model': {
      const { error, ...rest } = body
      t.strictSame(rest, {})
      t.ok(typeof error.message === 'string' && error.message.length > 0)
      t.equal(error.type, modelTypes[status] ?? 'invalid_request_error')
      t.strictSame([error.code, error.check], [code, check])
      return
    }
    case 'graphql': {
      t.equal(body.data, null)
      t.equal(body.errors.length, 1)
      const [{ message, path, extensions }] = body.errors
      t.ok(typeof message === 'string' && message.length > 0)
      t.strictSame(path, [])
      t.equal(extensions.status, status)
      t.equal(extensions.check, check)
      if (graphqlCodes[status]) t.equal(extensions.code, graphqlCodes[status])
      else t.match(extensions.code, /^[A-Z_]+$/)
    }
  }
}

t.test('401 has the shape of the surface, and names the scheme', async (t) => {
  const credentials = [{}, oauth({ jwt: 'x' }), bearer('oat_x'), bearer(serviceAccounts.robot.revoked)]
  for (const [surface, request] of routes)
    for (const headers of credentials) {
      const answer = await world.call({ ...request, headers })
      hasShape(t, surface, answer, { status: 401, code: 'unauthenticated' })
      const challenge = Object.keys(headers).length > 0 ? 'Bearer error="invalid_token"' : 'Bearer'
      t.equal(answer.headers['www-authenticate'], challenge)
    }
})

t.test('a 401 reads the same whatever was wrong with the credential', async (t) => {
  const { expired, revoked } = serviceAccounts.robot
  const stale = await world.mint({ sub: 'demo-owner', email: 'owner@demo.example', expiresIn: -3600 })
  const foreign = await world.mint({ sub: 'demo-owner', claims: { aud: 'another' } })
  const credentials = [
    {},
    bearer(expired),
    bearer(revoked),
    bearer('oat_x'),
    bearer(users.owner.jwt),
    oauth({ jwt: 'x' }),
    oauth({ jwt: stale }),
    oauth({ jwt: foreign }),
    oauth({ jwt: serviceAccounts.robot.apiKey }),
    { authorization: 'Basic dTpw' },
  ]
  const bodies = new Set<string>()
  for (const headers of credentials) {
    const { status, text } = await world.call({ path: '/data/entries', headers })
    t.equal(status, 401)
    bodies.add(text)
  }
  t.equal(bodies.size, 1)
})

t.test('a foreign organization is 401 in the shape of the surface', async (t) => {
  const headers = { ...member, 'x-organization-id': String(organizations.globex.id) }
  for (const [surface, request] of routes)
    hasShape(t, surface, await world.call({ ...request, headers }), { status: 401, code: 'not_a_member' })
})

t.test('400 has the shape of the surface', async (t) => {
  for (const [surface, request] of routes) {
    const malformed = await world.call({ ...request, headers: { ...owner, 'x-organization-id': 'x' } })
    hasShape(t, surface, malformed, { status: 400, code: 'invalid_organization_id' })
    const ambiguous = await world.call({ ...request, headers: { ...owner, ...bearer('x') } })
    hasShape(t, surface, ambiguous, { status: 400, code: 'ambiguous_credentials' })
  }
})

t.test('403 has the shape of the surface, and says which check failed', async (t) => {
  const headers = oauth(users.homeless)
  for (const [surface, request] of forwarded)
    hasShape(t, surface, await world.call({ ...request, headers }), {
      status: 403,
      code: 'role_insufficient',
      check: 'role',
    })
})

t.test('404 of an unknown path has the shape of the platform', async (t) => {
  for (const path of ['/nothing', '/v1/nothing', '/agent/1/nothing', '/graphql/nothing'])
    hasShape(t, 'platform', await world.call({ path }), { status: 404, code: 'route_not_found' })
})

t.test('404 of a resource has the shape of the surface', async (t) => {
  for (const path of [`/agent/${agents.globex}/responses`, '/agent/999999/chat/completions'])
    hasShape(t, 'model', await world.call({ method: 'POST', path, headers: member }), {
      status: 404,
      code: 'resource_not_found',
    })
  hasShape(t, 'platform', await world.call({ path: `/clusters/${clusters.globex}/proxy/x`, headers: member }), {
    status: 404,
    code: 'resource_not_found',
  })
})

t.test("405 has the shape of that path's routes, and lists their methods", async (t) => {
  const cases: readonly (readonly [surface: Surface, method: string, path: string, allow: string])[] = [
    ['platform', 'DELETE', '/datasets', 'GET, HEAD, POST'],
    ['platform', 'GET', `/organizations/${organizations.acme.id}/switch`, 'POST'],
    ['platform', 'POST', '/users/me', 'GET, HEAD'],
    ['files', 'PUT', '/v1/files', 'GET, HEAD, POST'],
    ['data', 'TRACE', '/data/entries', 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'],
    ['model', 'GET', `/agent/${agents.acme}/responses`, 'POST'],
    ['model', 'PUT', `/agent/${agents.acme}/chat/completions`, 'POST'],
    ['graphql', 'GET', '/graphql', 'POST'],
  ]
  for (const [surface, method, path, allow] of cases) {
    const answer = await world.call({ method, path, headers: owner })
    hasShape(t, surface, answer, { status: 405, code: 'method_not_allowed' })
    t.equal(answer.headers.allow, allow, `${method} ${path}`)
  }
})

t.test('a cluster that refuses has the shape of the platform: 403 suspended, 503 offline', async (t) => {
  const state = (id: number) => world.call({ path: `/clusters/${id}/proxy/entries`, headers: member })
  const suspended = { status: 403, code: 'cluster_suspended', check: 'resource' }
  hasShape(t, 'platform', await state(clusters.suspended), suspended)
  hasShape(t, 'platform', await state(clusters.stale), { status: 503, code: 'cluster_offline' })
  hasShape(t, 'platform', await state(clusters.deleting), { status: 503, code: 'cluster_offline' })
  hasShape(t, 'platform', await state(clusters.unreachable), { status: 503, code: 'upstream_unavailable' })
})

t.test('an upstream that cannot be reached is 503 in the shape of the surface', async (t) => {
  for (const [surface, request] of forwarded) {
    if (request.path.startsWith('/clusters/')) continue
    const answer = await call(withoutUpstreams.public, { ...request, headers: owner })
    hasShape(t, surface, answer, { status: 503, code: 'upstream_unavailable' })
    t.notMatch(answer.text, /127\.0\.0\.1|ECONN|connect/i, 'and says nothing of the inside')
  }
})

t.test('a directory that cannot be asked is 503 in the shape of the surface, and never 401', async (t) => {
  for (const [surface, request] of routes)
    for (const headers of [owner, bearer(serviceAccounts.robot.apiKey)]) {
      const answer = await call(withoutDirectory.public, { ...request, headers })
      hasShape(t, surface, answer, { status: 503, code: 'directory_unavailable' })
      t.notMatch(answer.text, /127\.0\.0\.1|ECONN|postgres/i, 'and says nothing of the inside')
    }
})

t.test('HEAD is refused without a body', async (t) => {
  const jwt = `x-oauth-access-token: ${users.client.jwt}\r\n`
  const cases: readonly (readonly [status: number, path: string, headers: string])[] = [
    [400, '/%2e%2e', ''],
    [401, '/datasets', ''],
    [401, '/data/entries', ''],
    [403, '/datasets', jwt],
    [404, '/nothing', ''],
    [405, '/graphql', ''],
    [405, `/agent/${agents.acme}/responses`, ''],
  ]
  await Promise.all(
    cases.map(async ([status, path, headers]) => {
      const text = await world.raw(`HEAD ${path} HTTP/1.1\r\nHost: a\r\n${headers}Connection: close\r\n\r\n`)
      t.match(text, new RegExp(`^HTTP/1\\.1 ${status} `), path)
      t.equal(text.indexOf('\r\n\r\n'), text.length - 4, `${path}: the head is all there is`)
    }),
  )
})

t.test('a connection goes on after a refused HEAD', async (t) => {
  const text = await world.raw(
    'HEAD /datasets HTTP/1.1\r\nHost: a\r\n\r\nGET /status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
  )
  t.match(text, /^HTTP\/1\.1 401 [\s\S]*?\r\n\r\nHTTP\/1\.1 200 /)
})

t.test('a request id is in every refusal: the one sent if it is sane, else a new one', async (t) => {
  const kept = await world.call({ path: '/datasets', headers: { 'x-request-id': 'mine-1.2_3' } })
  t.equal(kept.headers['x-request-id'], 'mine-1.2_3')
  t.equal(kept.json().error.requestId, 'mine-1.2_3')
  const made = await world.call({ path: '/datasets', headers: { 'x-request-id': 'not sane' } })
  t.match(made.headers['x-request-id'], /^[A-Za-z0-9._-]{1,128}$/)
  t.equal(made.json().error.requestId, made.headers['x-request-id'])
})

t.test('a refusal tells nothing about the software', async (t) => {
  for (const path of ['/nothing', '/datasets', '/%2e%2e']) {
    const { headers } = await world.call({ path })
    t.notOk('server' in headers || 'x-powered-by' in headers || 'via' in headers)
  }
})

type Prepared = Readonly<{ status: number; headers: Readonly<Record<string, string | string[]>>; body: string }>

const answerWith = (request: Call, prepared: Prepared): Promise<Answer> =>
  world.call({ ...request, headers: { ...owner, 'x-demo-answer': JSON.stringify(prepared) } })

const json = 'application/json; odd="yes"'
// Spaces, a newline and an escape that a parser and printer would lose.
const oddJson = '{ "error" : { "message":"\\u0061s it came" ,"n":1.0} }\n'

const answers: readonly (readonly [name: string, prepared: Prepared])[] = [
  ['429 with Retry-After', { status: 429, headers: { 'Retry-After': '17', 'Content-Type': json }, body: oddJson }],
  ['422', { status: 422, headers: { 'Content-Type': json }, body: oddJson }],
  ['500 of JSON', { status: 500, headers: { 'Content-Type': json }, body: oddJson }],
  ['503 of JSON', { status: 503, headers: { 'Content-Type': json, 'Retry-After': '3' }, body: oddJson }],
  ['400 of {detail}', { status: 400, headers: { 'Content-Type': json }, body: '{"detail":"as it came"}' }],
  ["401 with the upstream's scheme", { status: 401, headers: { 'WWW-Authenticate': 'Digest a="b"' }, body: '' }],
  ['404 of text', { status: 404, headers: { 'Content-Type': 'text/plain' }, body: 'nothing here' }],
  ['200 of something odd', { status: 200, headers: { 'Content-Type': 'x/y' }, body: '\u0000\u0001{"success":false}' }],
  ['302, which is not followed', { status: 302, headers: { Location: 'http://127.0.0.1:1/x?y#z' }, body: '' }],
]

for (const [name, prepared] of answers)
  t.test(`an upstream's ${name} passes unchanged on every surface`, async (t) => {
    for (const [surface, request] of forwarded) {
      const answer = await answerWith(request, prepared)
      t.equal(answer.status, prepared.status, `${surface} ${request.path}`)
      t.equal(answer.text, prepared.body)
      for (const [header, value] of Object.entries(prepared.headers))
        t.equal(answer.headers[header.toLowerCase()], value, header)
    }
  })

t.test("an upstream's 409 keeps its status and body on every surface", async (t) => {
  for (const [surface, request] of forwarded) {
    const answer = await answerWith(request, { status: 409, headers: { 'Content-Type': json }, body: oddJson })
    t.strictSame([answer.status, answer.text], [409, oddJson], surface)
  }
})

t.test("an upstream's 5xx of another type passes unchanged, but on the model surface", async (t) => {
  const prepared = { status: 502, headers: { 'Content-Type': 'text/html' }, body: '<h1>Bad</h1>' }
  for (const [surface, request] of forwarded) {
    if (surface === 'model') continue
    const answer = await answerWith(request, prepared)
    t.strictSame([answer.status, answer.text, answer.headers['content-type']], [502, '<h1>Bad</h1>', 'text/html'])
  }
})

t.test("an upstream's header lines pass in their order, case and number", async (t) => {
  const headers = {
    'Set-Cookie': ['a=1; Path=/; HttpOnly', 'b=2; Expires=Wed, 09 Jun 2100 10:18:14 GMT'],
    'X-Odd_Name.1': 'kept',
    'x-lower': '  inner  spaces  '.trim(),
    'X-UPPER': 'a, "b, c", d',
    'X-Empty': '',
    'X-Latin': 'caf\u00e9',
    ETag: 'W/"x"',
    'Cache-Control': ['no-store', 'private'],
    Date: 'Tue, 15 Nov 1994 08:12:31 GMT',
    'X-Content-Length': 'not a length',
  }
  const { rawHeaders } = await answerWith({ path: '/public/x' }, { status: 200, headers, body: 'x' })
  const lines = rawHeaders.flatMap((name, index) => (index % 2 === 0 ? [[name, rawHeaders[index + 1] ?? '']] : []))
  const named = new Set(Object.keys(headers))
  t.strictSame(
    lines.filter(([name = '']) => named.has(name)),
    Object.entries(headers).flatMap(([name, values]) => [values].flat().map((value) => [name, value])),
  )
  for (const single of ['date', 'content-length', 'etag'])
    t.equal(lines.filter(([name]) => name?.toLowerCase() === single).length, 1, single)
})

t.test('binary bytes pass unchanged', async (t) => {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, index) => index))
  const demo = JSON.stringify({ status: 200, headers: {}, bodyBase64: bytes.toString('base64') })
  const head = `GET /public/x HTTP/1.1\r\nHost: a\r\nx-oauth-access-token: ${users.member.jwt}\r\n`
  const text = await world.raw(`${head}x-demo-answer: ${demo}\r\nConnection: close\r\n\r\n`)
  t.equal(text.slice(text.indexOf('\r\n\r\n') + 4), bytes.toString('latin1'))
})

t.test('answers that have no body stay without one', async (t) => {
  for (const status of [204, 304]) {
    const answer = await answerWith({ path: '/public/x' }, { status, headers: { ETag: '"x"' }, body: '' })
    t.strictSame([answer.status, answer.text, answer.headers.etag], [status, '', '"x"'])
    t.notOk('transfer-encoding' in answer.headers)
  }
})

const bodies: Readonly<Record<string, string>> = {
  'with a chunk size that is none': '3\r\nabc\r\nnonsense\r\n',
  'that its client ends early': '3\r\nabc\r\n',
}
for (const [what, body] of Object.entries(bodies))
  t.test(`a body ${what} is 400 in the shape of the surface, under the id of its request`, async (t) => {
    const { robot } = serviceAccounts
    const targets: readonly (readonly [surface: Surface, path: string])[] = [
      ['platform', '/datasets'],
      ['platform', `/organizations/${organizations.acme.id}/users/${robot.id}/tokens`],
      ['platform', `/clusters/${clusters.healthy}/proxy/x`],
      ['files', '/v1/files'],
      ['data', '/data/entries'],
      ['model', `/agent/${agents.acme}/responses`],
      ['model', `/agent/${agents.acme}/chat/completions`],
      ['graphql', '/graphql'],
    ]
    for (const [surface, path] of targets) {
      const client = await openRawClient(t, world.public)
      const lines = `Host: h\r\nx-request-id: broken-body\r\nx-oauth-access-token: ${users.owner.jwt}\r\n`
      client.send(`POST ${path} HTTP/1.1\r\n${lines}Transfer-Encoding: chunked\r\n\r\n${body}`)
      if (!body.includes('nonsense')) client.socket.end()
      const answer = parseAnswer(await client.closed())
      hasShape(t, surface, answer, { status: 400, code: 'headers_malformed' })
      t.equal(answer.headers['x-request-id'], 'broken-body', path)
      t.equal(answer.headers.connection, 'close', path)
    }
  })

function parseAnswer(bytes: string): Answer {
  const [head = '', ...rest] = bytes.split('\r\n\r\n')
  const [line = '', ...lines] = head.split('\r\n')
  const pairs = lines.map((text) => [text.slice(0, text.indexOf(':')).toLowerCase(), text.replace(/^[^:]*: */, '')])
  const text = rest.join('\r\n\r\n')
  return {
    status: Number(line.split(' ')[1]),
    headers: Object.fromEntries(pairs),
    rawHeaders: pairs.flat(),
    text,
    json: () => JSON.parse(text),
  }
}
