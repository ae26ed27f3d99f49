import t from 'tap'
import { call } from '../support/client.ts'
import { startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const member = oauth(world.users.member)

/** A member may ask for /public; some backend would read each of these as a path under /admin. */
const confusing: Readonly<Record<string, readonly string[]>> = {
  'dot segments': ['/public/../admin/x', '/public/./../admin/x', '/public/x/../../admin/x', '/public/..'],
  'escaped dots': ['/public/%2e%2e/admin/x', '/public/.%2E/admin/x', '/public/%2e/../admin/x'],
  'dots escaped twice': ['/public/%252e%252e/admin/x', '/public/%25252e%25252e/admin/x'],
  'escaped slashes': ['/public/..%2fadmin/x', '/public%2f..%2Fadmin/x', '/admin%2fx', '/admin%2Fx', '/public/%252f/x'],
  backslashes: ['/public\\..\\admin\\x', '/public/..%5cadmin/x', '/public/..%255cadmin%255cx', '/admin\\x'],
  'path parameters': [
    '/public/..;/admin/x',
    '/public/..;a=b/admin/x',
    '/public/;/../admin/x',
    '/public/%2e%2e;x/admin/x',
  ],
  'empty segments': ['//admin/x', '/public//../admin/x', '/admin//x', '///admin/x'],
  'overlong and broken escapes': ['/public/%c0%ae%c0%ae/admin/x', '/public/%ff/x', '/public/%2', '/public/%zz/x'],
  'a fragment': ['/public/x#/../admin/x', '/admin/x#', '/public/%23/../admin/x'],
  'escaped ends of a path': ['/public/..%3Fx', '/public/..%23/admin/x', '/public/x/%252e%252e%253F/admin/x'],
  'control bytes and spaces': ['/public/%00/x', '/public/x%0d%0ay', '/admin%00/x'],
  'another authority': ['http://elsewhere/admin/x', 'http:/admin/x', 'http:http://elsewhere/admin/x', 'admin/x', '*'],
}

// Ory Oathkeeper GHSA-p224-6x5r-fjpm, heimdall CVE-2026-42274 and CVE-2026-42272, Traefik CVE-2025-32431. Traefik
// GHSA-vrch-868g-9jx5, GHSA-gm3x-23wp-hc2c and CVE-2026-88009, Envoy CVE-2019-9901. Istio CVE-2021-31920, oauth2-proxy
// CVE-2026-41059, @fastify/reply-from GHSA-2q7r-29rg-6m5h. Each judged one path and served another.
for (const [what, targets] of Object.entries(confusing))
  t.test(`${what} lead no caller from one path to another`, async (t) => {
    await world.clearRecorder()
    for (const target of targets) {
      const lines = `Host: h\r\nx-oauth-access-token: ${world.users.member.jwt}\r\nConnection: close\r\n`
      const text = await world.raw(`GET ${target} HTTP/1.1\r\n${lines}\r\n`)
      t.match(text, /^HTTP\/1\.1 400 /, target)
    }
    t.same(await world.recorded(), [], 'nothing arrived')
  })

// Caddy CVE-2026-27587, Spring Security CVE-2023-20860, @fastify/express CVE-2026-22037.
t.test('a spelling that only a backend would take for a guarded path is refused, or guarded alike', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'))
  const route = { surface: 'platform', upstream: 'platform' }
  const routes = [
    { ...route, id: 'any', match: { path: '/*' } },
    { ...route, id: 'guarded', match: { path: '/admin/*' }, require: { role: 'org-owner' } },
    { ...route, id: 'guarded.semicolon', match: { path: '/a%3Bb/*' }, require: { role: 'org-owner' } },
  ]
  const gateway = await startTestGateway(t, { world, routes, upstreams: { platform: { url: upstream.url } } })
  const ask = async (path: string): Promise<number> => (await call(gateway.public, { path, headers: member })).status
  for (const path of ['/admin/x', '/a;b/x', '/%61dmin/x', '/admin/x/', '/admin/%78'])
    t.equal(await ask(path), 403, path)
  for (const path of [
    '/ADMIN/x',
    '/Admin/x',
    '/admin;a=b/x',
    '/%2561dmin/x',
    '/%41dmin/x',
    '/admin%20/x',
    '/%2541DMIN;a/x',
    // A servlet container cuts `;v` off first and decodes then.
    '/a%3Bb;v/x',
    '/admin./x',
    '/..%20/admin/x',
    // Windows ignores names of dots or spaces alone.
    '/.../admin/x',
    '/%20/admin/x',
  ])
    t.equal(await ask(path), 400, path)
  t.same(upstream.received(), [], 'nothing arrived')
  t.equal(await ask('/administrators/X;a'), 200)
})

t.test('no other spelling of a path is counted in another budget, or in none', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'))
  const inner = await startRawUpstream(t, (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'))
  const route = { surface: 'platform', upstream: 'platform', access: 'public' }
  const behind = { ...route, upstream: 'data' }
  const hour = { seconds: 3_600, by: 'address' }
  const gateway = await startTestGateway(t, {
    world,
    upstreams: { platform: { url: upstream.url }, data: { url: inner.url } },
    rateLimits: {
      few: { ...hour, requests: 1 },
      rare: { ...hour, requests: 1 },
      many: { ...hour, requests: 100 },
      together: { ...hour, requests: 100, by: 'route' },
    },
    routes: [
      { ...route, id: 'any', match: { path: '/*' } },
      { ...route, id: 'login', match: { path: '/login' }, rateLimit: 'few' },
      { ...route, id: 'counted', match: { path: '/counted/*' }, rateLimit: 'many' },
      { ...route, id: 'counted.login', match: { path: '/counted/login' }, rateLimit: 'few' },
      { ...route, id: 'counted.alike', match: { path: '/counted/alike' }, rateLimit: 'many' },
      { ...route, id: 'counted.free', match: { path: '/counted/free' } },
      { ...route, id: 'shared', match: { path: '/shared/*' }, rateLimit: 'together' },
      { ...route, id: 'shared.one', match: { path: '/shared/one' }, rateLimit: 'together' },
      { ...behind, id: 'moved', match: { path: '/moved/:x' }, rewrite: '/at/:x' },
      { ...behind, id: 'moved.login', match: { path: '/moved/login' }, rewrite: '/elsewhere' },
      { ...behind, id: 'enter', match: { path: '/enter' }, rewrite: '/at/login', rateLimit: 'rare' },
      { ...behind, id: 'v1', match: { path: '/v1/:x' }, rewrite: '/v/:x', rateLimit: 'many' },
      { ...behind, id: 'v2', match: { path: '/v2/:x' }, rewrite: '/v/:x' },
    ],
  })
  const ask = async (path: string): Promise<number> => (await call(gateway.public, { path })).status
  t.same([await ask('/login'), await ask('/%6Cogin'), await ask('/login')], [200, 429, 429])
  const arrived = upstream.received().join('').length
  for (const path of ['/LOGIN', '/login/', '/login;a=b', '/%256cogin', '/login.', '/counted/Login', '/shared/One'])
    t.equal(await ask(path), 400, path)
  t.equal(upstream.received().join('').length, arrived, 'nothing arrived')
  for (const path of ['/Other', '/counted/Alike', '/counted/Free', '/counted/x;a', '/shared/x;a'])
    t.equal(await ask(path), 200, path)
  for (const path of ['/moved/LOGIN', '/moved/login;a', '/moved/login.']) t.equal(await ask(path), 400, path)
  t.same(inner.received(), [], 'nothing arrived behind the rewrites')
  for (const path of ['/moved/login', '/moved/Other', '/enter', '/v1/Some%20thing', '/v2/Some%20thing'])
    t.equal(await ask(path), 200, path)
})

t.test('an allowed target goes out as it was judged, byte for byte', async (t) => {
  for (const path of ['/public/a%20b', '/public/%61', '/public/a;b=c', '/public/%25', '/public/x?a=/../admin']) {
    await world.clearRecorder()
    t.equal((await world.call({ path, headers: member })).status, 200, path)
    t.same(
      (await world.recorded()).map(({ requestLine }) => requestLine),
      [`GET ${path} HTTP/1.1`],
    )
  }
})
