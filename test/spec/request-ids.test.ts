import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { call, callRaw } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { accept, handshake, socketRoute } from '../support/websocket.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t, { hasOwnProcess: true })
const member = oauth(world.users.member)

async function startPair(t: Test, said: string, route = openRoute) {
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    if (soFar.endsWith('\r\n\r\n')) socket.write(said)
  })
  return startTestGateway(t, { routes: [route], upstreams: { platform: { url: upstream.url } } })
}

const idsOf = (text: string): readonly string[] =>
  [...text.matchAll(/\r\nx-request-id: (.*)\r\n/gi)].map(([, id]) => id ?? '')

t.test('a forwarded answer carries the id of its request', async (t) => {
  const answer = 'HTTP/1.1 200 OK\r\nx-request-id:\r\nx_request_id: other\r\ncontent-length: 0\r\n\r\n'
  const gateway = await startPair(t, answer)
  t.equal(
    (await call(gateway.public, { path: '/x', headers: { 'x-request-id': 'r-1' } })).headers['x-request-id'],
    'r-1',
  )
  t.match((await call(gateway.public, { path: '/x' })).headers['x-request-id'], /^[\w-]{36}$/)
})

t.test('a request id that the backend sends stays, and is the only one', async (t) => {
  const gateway = await startPair(t, 'HTTP/1.1 200 OK\r\nX-Request-Id: own 1\r\ncontent-length: 0\r\n\r\n')
  const text = await callRaw(
    gateway.public,
    'GET /x HTTP/1.1\r\nHost: h\r\nx-request-id: r-1\r\nConnection: close\r\n\r\n',
  )
  t.same(idsOf(text), ['own 1'])
})

t.test(
  'a request id that the backend sends is logged beside the gateway’s own, unless it could be a secret',
  async (t) => {
    const say = (path: string, id: string) =>
      world.call({
        path,
        headers: { ...member, 'x-demo-answer': JSON.stringify({ status: 200, headers: { 'x-request-id': id } }) },
      })
    await say('/public/secret', 'oat_secret')
    await say('/public/odd', 'two words')
    await say('/public/named', 'backend-7')
    const log = () => readFileSync(join(world.directory, 'gateway.log'), 'utf8')
    await until(() => log().includes('/public/named'), 'the line')
    const lineOf = (path: string) =>
      log()
        .split('\n')
        .find((line) => line.includes(path)) ?? ''
    t.match(lineOf('/public/named'), '"upstreamRequestId":"backend-7"')
    for (const path of ['/public/secret', '/public/odd'])
      t.notMatch(lineOf(path), /upstreamRequestId|oat_secret|two words/)
  },
)

t.test('the answer of an upgrade carries the id of its request', async (t) => {
  const switching = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
  const gateway = await startPair(t, `${switching}Sec-WebSocket-Accept: ${accept}\r\n\r\n`, socketRoute)
  t.same(idsOf(await callRaw(gateway.public, handshake('/socket', 'x-request-id: r-2\r\n'))), ['r-2'])
})

t.test('each answer of the gateway itself carries the id of its request', async (t) => {
  for (const [path, headers] of [
    ['/users/me', member],
    ['/users/me', {}],
    ['/nowhere', member],
    ['/datasets', member],
  ] as const) {
    const answer = await world.call({ path, headers: { ...headers, 'x-request-id': 'r-3' } })
    t.equal(answer.headers['x-request-id'], 'r-3', path)
  }
  const settings = {
    cors: { origins: ['https://app.example'] },
    identity: { publishOnPublicListener: true, keys: ['file:identity.pem'] },
  }
  const gateway = await startTestGateway(t, { world, settings })
  const preflight = { origin: 'https://app.example', 'access-control-request-method': 'GET', 'x-request-id': 'r-4' }
  const answers = [
    await call(gateway.public, { method: 'OPTIONS', path: '/datasets', headers: preflight }),
    await call(gateway.public, { path: '/.well-known/jwks.json', headers: { 'x-request-id': 'r-4' } }),
    await call(gateway.admin, { path: '/healthz', headers: { 'x-request-id': 'r-4' } }),
    await call(gateway.decision, { path: '/nowhere', headers: { 'x-request-id': 'r-4' } }),
  ]
  for (const { headers } of answers) t.equal(headers['x-request-id'], 'r-4')
})

t.test('bytes that could not be read as a request get an id of their own', async (t) => {
  for (const bytes of [
    'NONSENSE\r\n\r\n',
    'GET / HTTP/1.1\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
    'BREW / HTTP/1.1\r\nHost: h\r\n\r\n',
    'CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n',
    `GET /${'x'.repeat(40_000)} HTTP/1.1\r\nHost: h\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: h\r\nx: ${'x'.repeat(40_000)}\r\n\r\n`,
    'POST /public/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
  ]) {
    const text = await world.raw(bytes)
    t.match(text, /^HTTP\/1.1 [45]\d\d /, bytes.slice(0, 20))
    t.equal(idsOf(text).length, 1, bytes.slice(0, 20))
  }
})
