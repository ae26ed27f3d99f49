import t, { type Test } from 'tap'
import { callRaw } from '../support/client.ts'
import { startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { accept, handshake, socketRoute } from '../support/websocket.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { member, client } = world.users

/** The values of a header in the first final answer, and its status. */
function readAnswer(text: string) {
  const final = text.replace(/^HTTP\/1\.1 100 .*\r\n\r\n/, '')
  const [head = ''] = final.split('\r\n\r\n')
  const valuesOf = (name: string) =>
    [...head.matchAll(new RegExp(`\\r\\n${name}: *(.*)`, 'gi'))].map(([, value]) => value)
  return { status: Number(head.slice(9, 12)), valuesOf }
}

const as = (user: Readonly<{ jwt: string }>): string => `x-oauth-access-token: ${user.jwt}\r\n`
const demo = (status: number): string =>
  `x-demo-answer: ${JSON.stringify({ status, headers: { 'content-type': 'text/html' }, body: '' })}\r\n`
const post = 'content-length: 2\r\n'

type Asked = readonly [origin: string, firstLine: string, lines: string, body?: string]

/** The gateway's own answers, at each of its listeners, and on the surfaces of the policy. */
const owned: readonly Asked[] = [
  [world.public, 'GET /users/me', as(member)],
  [world.public, 'HEAD /users/me', as(member)],
  [world.public, 'GET /users/me/abilities', as(member)],
  [world.public, 'GET /datasets', ''],
  [world.public, 'HEAD /datasets', as(client)],
  [world.public, 'GET /data/x', as(client)],
  [world.public, 'POST /graphql', `${as(client)}${post}`, '{}'],
  [world.public, `POST /agent/${world.agents.globex}/responses`, `${as(client)}${post}`, '{}'],
  [world.public, 'POST /agent/1/responses', `${as(client)}${demo(502)}${post}`, '{}'],
  [world.public, 'GET /clusters/2/proxy/x', as(member)],
  [world.public, 'GET /clusters/5/proxy/x', as(member)],
  [world.public, 'GET /nothing', as(member)],
  [world.public, 'DELETE /status', ''],
  [world.public, 'OPTIONS /datasets', ''],
  [world.public, 'GET /a//b', ''],
  [world.public, `GET /${'x'.repeat(9_000)}`, ''],
  [world.public, 'GET /x', `a: ${'x'.repeat(17_000)}\r\n`],
  [world.public, 'POST /public/x', `${as(member)}content-length: 999999999\r\n`],
  [world.public, 'POST /public/x', `${as(member)}expect: other\r\n${post}`, '{}'],
  [world.public, 'BREW /x', ''],
  [world.public, 'TRACE /x', ''],
  [world.decision, 'GET /authorize', `${as(member)}x-original-method: GET\r\nx-original-uri: /datasets\r\n`],
  [world.decision, 'GET /authorize', `${as(client)}x-original-method: GET\r\nx-original-uri: /datasets\r\n`],
  [world.decision, 'GET /authorize?statuses=nginx', 'x-original-method: GET\r\nx-original-uri: /nothing\r\n'],
  [world.decision, 'GET /authorize', ''],
  [world.decision, 'GET /envoy/status', ''],
  [world.decision, 'GET /envoy-named/status', ''],
  [world.decision, 'GET /nothing', ''],
  ...['/', '/console/live', '/healthz', '/readyz', '/metrics', '/.well-known/jwks.json', '/nothing'].map(
    (path): Asked => [world.admin, `GET ${path}`, ''],
  ),
  [world.admin, 'POST /', ''],
]

const forwarded: readonly Asked[] = [
  [world.public, 'GET /status', ''],
  [world.public, 'GET /public/x', as(member)],
  [world.public, 'HEAD /public/x', as(member)],
  ...[204, 304, 404, 500].map((status): Asked => [world.public, 'GET /public/x', `${as(member)}${demo(status)}`]),
  [world.public, 'POST /agent/1/responses', `${as(client)}${post}`, '{}'],
  [world.public, 'POST /agent/1/responses', `${as(client)}content-length: 15\r\n`, '{"stream":true}'],
  [world.public, 'GET /clusters/1/proxy/x', as(member)],
]

const ask = async ([origin, firstLine, lines, body = '']: Asked) =>
  readAnswer(
    await callRaw(
      origin,
      `${firstLine} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nx-request-id: one\r\n${lines}\r\n${body}`,
    ),
  )

// An answer without an id cannot be found in the log, and one that says nothing of caches may be kept by any of them.
t.test('the gateway’s own answer has the id of its request, and is not stored', async (t) => {
  for (const asked of owned) {
    const { status, valuesOf } = await ask(asked)
    const name = `${asked[1].slice(0, 40)}: ${status}`
    t.equal(valuesOf('x-request-id').length, 1, name)
    t.same(valuesOf('cache-control'), ['no-store'], name)
  }
})

t.test(
  'a forwarded answer has the id of its request, and only its caller may keep it, except on public routes',
  async (t) => {
    for (const asked of forwarded) {
      const { status, valuesOf } = await ask(asked)
      const name = `${asked[1]}: ${status}`
      t.same(valuesOf('x-request-id'), ['one'], name)
      if (asked[1] === 'GET /status') t.same(valuesOf('cache-control'), [], name)
      else t.match(valuesOf('cache-control').join(), /private|no-store/, name)
    }
  },
)

t.test('upgrades, and answers to bytes that are not a request, have an id', async (t: Test) => {
  const said = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    if (soFar.endsWith('\r\n\r\n')) socket.write(said)
  })
  const gateway = await startTestGateway(t, {
    routes: [socketRoute],
    upstreams: { platform: { url: upstream.url } },
  })
  const switched = readAnswer(await callRaw(gateway.public, handshake('/socket', 'x-request-id: two\r\n')))
  t.same([switched.status, switched.valuesOf('x-request-id')], [101, ['two']])
  for (const origin of [world.public, world.decision, world.admin])
    for (const bytes of [
      'NONSENSE\r\n\r\n',
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      '\x16\x03\x01\0\xa5\x01\0\0\xa1\x03\x03',
    ]) {
      const { status, valuesOf } = readAnswer(await callRaw(origin, bytes))
      t.equal(status, 400)
      t.same([valuesOf('x-request-id').length, valuesOf('cache-control')], [1, ['no-store']], bytes.slice(0, 8))
    }
})
