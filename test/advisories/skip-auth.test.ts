import t from 'tap'
import { call, callRaw } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'

const upstream = await startRawUpstream(t, (socket) => {
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
})
const guarded = { ...openRoute, access: 'authenticated' }
const routes = [
  { ...guarded, id: 'all', match: { path: '/*' } },
  { ...openRoute, id: 'health', match: { methods: ['GET'], path: '/health' } },
  { ...openRoute, id: 'docs', match: { methods: ['GET'], path: '/docs/:page/public' } },
  { ...openRoute, id: 'dots', match: { methods: ['GET'], path: '/v1.0/.well-known/*' } },
]
const gateway = await startTestGateway(t, { routes, upstreams: { platform: { url: upstream.url } } })

t.test('a public route needs no credential', async (t) => {
  for (const path of ['/health', '/health?x', '/docs/one/public', '/v1.0/.well-known/x'])
    t.equal((await call(gateway.public, { path })).status, 200, path)
})

// oauth2-proxy GHSA-7rh7-c77v-6434: a query that looks like a public path. CVE-2026-41059: a fragment. CVE-2026-34457:
// a health check's user agent. CVE-2026-40575: another path in a header.
t.test('nothing beside its path and method makes a request public', async (t) => {
  const before = upstream.received().join('').length
  for (const path of [
    '/private?/health',
    '/private?x=/docs/one/public',
    '/private%3f/health',
    '/private;/health',
    '/private&/health',
    '/health/private',
    '/healthz',
    '/xhealth',
    '/docs/a/b/public',
    '/docs//public',
    '/docs/private/publicity',
    '/docs/x%2fpublic',
    '/docs/secret%2f../public',
    '/v1x0/.well-known/x',
    '/v1.0/xwell-known/x',
    '/HEALTH',
    '/health/',
    '/health%0a',
    '/health%00',
  ]) {
    const { status } = await call(gateway.public, { path })
    t.ok(status === 401 || status === 400, `${path}: ${status}`)
  }
  for (const target of ['/private#/health', '/private?#/health', '/docs/secret#/public', 'http://h/private?/health']) {
    const text = await callRaw(gateway.public, `GET ${target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`)
    t.match(text, /^HTTP\/1\.1 40[01] /, target)
  }
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS'])
    t.ok([401, 405].includes((await call(gateway.public, { method, path: '/health' })).status), method)
  for (const headers of [
    { 'user-agent': 'GoogleHC/1.0' },
    { 'user-agent': 'kube-probe/1.30' },
    { 'x-forwarded-uri': '/health' },
    { 'x-original-url': '/health' },
    { 'x-auth-request-redirect': '/health' },
    { referer: 'http://h/health' },
    { upgrade: 'websocket', connection: 'upgrade' },
    { origin: 'http://h', 'access-control-request-method': 'GET' },
    { authorization: 'Basic aGVhbHRoOg==' },
  ])
    t.equal((await call(gateway.public, { path: '/private', headers })).status, 401, JSON.stringify(headers))
  t.equal(upstream.received().join('').length, before, 'nothing arrived')
})
