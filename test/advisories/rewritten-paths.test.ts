import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { call } from '../support/client.ts'
import { openRawClient, startRawUpstream, startTestGateway, type TakeBytes, until } from '../support/gateway.ts'
import { answerOf, isWhole, latin1, valuesOf } from '../support/proxy.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
let arrived = ''
const take: TakeBytes = (socket, soFar) => {
  if (!isWhole(soFar)) return
  arrived = soFar.split('\r\n\r\n').at(-2) ?? ''
  if (/\r\nupgrade: websocket\r\n/i.test(soFar))
    socket.write(
      latin1(
        'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n',
      ),
    )
  else socket.write(latin1(answerOf('ok')))
}
const upstream = await startRawUpstream(t, take)
const other = await startRawUpstream(t, take)

const route = (id: string, path: string, more: object = {}) => ({
  id,
  match: { path },
  surface: 'platform',
  upstream: 'platform',
  ...more,
})

const gateway = await startTestGateway(t, {
  world,
  settings: { audit: { sink: './audit.jsonl' } },
  upstreams: {
    platform: { url: upstream.url, bind: true },
    files: { url: `${upstream.url}/store/v1` },
    agents: { url: other.url },
  },
  routes: [
    route('strip', '/api/*', { stripPrefix: '/api', encodedSlashes: 'allow', websocket: true }),
    route('whole', '/sets/:id', { rewrite: '/v2/:id/data', encodedSlashes: 'allow' }),
    route('usual', '/plain/*'),
    route('based', '/files/*', { upstream: 'files' }),
    route('a', '/a/:x', { upstream: 'agents', rewrite: '/b/:x' }),
    route('a.admin', '/a/admin', { upstream: 'agents', rewrite: '/z' }),
    route('c', '/c', { upstream: 'agents', rewrite: '/b/admin', require: { role: 'org-owner' } }),
  ],
})

const headers = oauth(world.users.member)

/** The head that arrived, or the status of the refusal. */
async function send(path: string, more: Readonly<Record<string, string>> = {}): Promise<string> {
  arrived = ''
  const { status } = await call(gateway.public, { path, headers: { ...headers, ...more } })
  return arrived || String(status)
}

const lineOf = (head: string): string => head.split('\r\n', 1)[0] ?? ''

t.test('the path is rewritten by whole segments, and the query stays', async (t) => {
  const paths: readonly (readonly [sent: string, wanted: string])[] = [
    ['/api/x?y=/api/..', '/x?y=/api/..'],
    ['/api/a%20b/c%2Fd/', '/a%20b/c%2Fd/'],
    ['/sets/x%2Fy?', '/v2/x%2Fy/data?'],
    ['/files/a/%41', '/store/v1/files/a/%41'],
    ['/plain/api/x', '/plain/api/x'],
  ]
  for (const [sent, wanted] of paths) t.equal(lineOf(await send(sent)), `GET ${wanted} HTTP/1.1`, sent)
})

t.test('no path escapes the prefix, the base or its host', async (t) => {
  for (const path of [
    // CVE-2026-48020: the prefix matched a part of a segment, and what it left was resolved.
    ...['/api../c', '/api%2e%2e/c', '/api%2e/c', '/api;x/c', '/apic'],
    ...[
      '/api//evil.example/x',
      '/api/%2Fevil.example',
      '/api/%2f%2fevil.example',
      '/api/..%2Fx',
      '/api/../x',
      '/api/.',
    ],
    ...['/api/http://evil.example', '/api/\\evil.example', '/api/%5Cevil.example', '/api/..;x/y', '/files/../admin'],
    ...['/sets/..', '/sets/%2e%2e', '/sets/x%2F..', '/sets/..%2Fx', '/sets/'],
  ])
    t.match(await send(path), /^40[04]$/, path)
})

t.test('the gateway alone tells the prefix that it took away', async (t) => {
  const forged = { 'x-forwarded-prefix': '/evil', X_Forwarded_Prefix: '/evil', 'x-forwarded.prefix': '/evil' }
  t.same(valuesOf(await send('/api/x', forged), 'x-forwarded-prefix'), ['/api'])
  for (const path of ['/plain/x', '/files/x', '/sets/x']) {
    const head = await send(path, forged)
    t.match(head, / HTTP\/1\.1\r\n/, path)
    t.notMatch(head, /prefix|evil/i, path)
  }
})

t.test('a spelling that the upstream reads as another route’s path is refused', async (t) => {
  t.equal(lineOf(await send('/a/users')), 'GET /b/users HTTP/1.1')
  t.equal(lineOf(await send('/a/admin')), 'GET /z HTTP/1.1')
  t.equal(await send('/c'), '403')
  for (const path of ['/a/ADMIN', '/a/admin.', '/a/admin;x', '/a/Admin%20']) t.equal(await send(path), '400', path)
})

t.test('a WebSocket goes to the rewritten path', async (t) => {
  const client = await openRawClient(t, gateway.public)
  client.send(
    `GET /api/socket HTTP/1.1\r\nHost: h\r\nx-oauth-access-token: ${world.users.member.jwt}\r\nConnection: upgrade\r\n` +
      'Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  )
  t.match(await client.until(/\r\n\r\n/), /^HTTP\/1\.1 101 /)
  t.equal(lineOf(arrived), 'GET /socket HTTP/1.1')
  client.socket.destroy()
})

const targetOf = (identity: string | undefined): string =>
  JSON.parse(Buffer.from(identity?.split('.')[1] ?? '', 'base64url').toString()).htu

t.test('a bound identity names the target that arrives', async (t) => {
  t.equal(targetOf(valuesOf(await send('/api/x?y'), 'x-gateway-identity')[0]), '/x?y')
  // The proxy that asks forwards the path that it asked about.
  const asked = { ...headers, 'x-original-method': 'GET', 'x-original-uri': '/api/x?y' }
  const answer = await call(gateway.decision, { path: '/authorize', headers: asked })
  t.equal(answer.status, 200)
  t.equal(targetOf(String(answer.headers['x-gateway-identity'])), '/api/x?y')
})

t.test('the audit has the rewritten path beside the judged one', async (t) => {
  await send('/sets/77?secret=1')
  const read = () =>
    readFileSync(join(dirname(gateway.keyFile), 'audit.jsonl'), 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
  await until(() => read().some(({ path }) => path === '/sets/77'), 'the line')
  const paths = (wanted: string) => read().find(({ path }) => path === wanted)
  t.match(paths('/sets/77'), { upstreamPath: '/v2/77/data' })
  t.notOk('upstreamPath' in paths('/plain/x'))
})
