import t from 'tap'
import { call } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const member = oauth(world.users.member)

const upstream = await startRawUpstream(t, (socket) => {
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
})
/** A gateway that believes these proxies; the test speaks from 127.0.0.1. */
const startBehind = (trustedProxies: readonly string[]) =>
  startTestGateway(t, {
    routes: [openRoute],
    upstreams: { platform: { url: upstream.url } },
    settings: { trustedProxies },
  })

/** The values of a header in the last request that arrived. */
const lastValues = (name: string): readonly string[] => {
  const head = upstream.received().join('').split('GET ').at(-1) ?? ''
  return [...head.matchAll(new RegExp(`^${name}: (.*)\r$`, 'gim'))].map(([, value]) => value ?? '')
}

const lies = {
  'x-forwarded-for': '6.6.6.6',
  'x-forwarded-host': 'admin.example',
  'x-forwarded-proto': 'https',
  'x-forwarded-port': '443',
  'x-forwarded-prefix': '/admin',
  'x-forwarded-method': 'GET',
  'x-forwarded-uri': '/public/x',
  'x-original-uri': '/public/x',
  'x-original-url': '/public/x',
  'x-rewrite-url': '/public/x',
  'x-real-ip': '6.6.6.6',
  'true-client-ip': '6.6.6.6',
  forwarded: 'for=6.6.6.6;host=admin.example;proto=https',
}

// oauth2-proxy CVE-2026-40575: a path in X-Forwarded-Uri was judged in the place of the one that was served.
t.test('no header chooses what is judged on the public listener', async (t) => {
  await world.clearRecorder()
  for (const [name, value] of Object.entries(lies)) {
    t.equal(
      (await world.call({ path: '/datasets', headers: { [name]: value } })).status,
      401,
      `${name}, without a credential`,
    )
    t.equal((await world.call({ path: '/admin/x', headers: { ...member, [name]: value } })).status, 403, name)
  }
  t.equal((await world.call({ path: '/admin/x', headers: { ...member, ...lies } })).status, 403, 'all of them')
  t.same(await world.recorded(), [], 'nothing arrived')
})

// Ory Oathkeeper GHSA-vhr5-ggp3-qq85, Traefik CVE-2024-52003, CVE-2026-35051 and CVE-2026-54764, Fastify CVE-2026-3635.
// The claims of an untrusted peer about itself were believed and passed on.
t.test('the claims of an untrusted peer about itself do not count', async (t) => {
  for (const trusted of [[], ['10.0.0.0/8']]) {
    const gateway = await startBehind(trusted)
    t.equal((await call(gateway.public, { path: '/x', headers: lies })).status, 200)
    t.same(lastValues('x-forwarded-for'), ['127.0.0.1'])
    t.same(lastValues('x-forwarded-proto'), ['http'])
    t.match(lastValues('x-forwarded-host'), [/^127\.0\.0\.1:\d+$/])
    t.notMatch(upstream.received().at(-1), /6\.6\.6\.6|admin|https|public/)
  }
})

// heimdall GHSA-38x9-25wx-7fg2: what a trusted proxy passed on was taken for an address without a look.
t.test('behind a trusted proxy only what it can have said itself is believed', async (t) => {
  const gateway = await startBehind(['127.0.0.1', '10.0.0.0/8'])
  for (const [said, believed] of [
    ['6.6.6.6', '6.6.6.6, 127.0.0.1'],
    ['1.1.1.1, 6.6.6.6', '6.6.6.6, 127.0.0.1'],
    ['1.1.1.1, 6.6.6.6, 10.1.1.1', '6.6.6.6, 10.1.1.1, 127.0.0.1'],
    ['6.6.6.6, unknown', '127.0.0.1'],
    ['"6.6.6.6", _hidden', '127.0.0.1'],
    ['127.0.0.1, ', '127.0.0.1'],
    ['1.1.1.1, 6.6.6.6:4711', '6.6.6.6, 127.0.0.1'],
    ['1.1.1.1, [2001:db8::6]:4711, 10.1.1.1:80', '2001:db8::6, 10.1.1.1, 127.0.0.1'],
    ['6.6.6.6, 10.1.1.1:x', '127.0.0.1'],
    ['6.6.6.6, [10.1.1.1]', '127.0.0.1'],
    ['6.6.6.6, fe80::1%10.1.1.1', '127.0.0.1'],
  ] as const) {
    await call(gateway.public, { path: '/x', headers: { 'x-forwarded-for': said } })
    t.same(lastValues('x-forwarded-for'), [believed], said)
  }
  await call(gateway.public, { path: '/x', headers: { 'x-forwarded-proto': 'javascript', 'x-forwarded-host': 'a b' } })
  t.same(lastValues('x-forwarded-proto'), ['http'])
  t.match(lastValues('x-forwarded-host'), [/^127\.0\.0\.1:\d+$/])
})

t.test('the decision listener alone believes what it is told about a request', async (t) => {
  const told = { 'x-forwarded-method': 'GET', 'x-forwarded-uri': '/public/x' }
  t.equal((await call(world.decision, { path: '/authorize', headers: { ...member, ...told } })).status, 200)
  t.equal((await world.call({ path: '/authorize', headers: { ...member, ...told } })).status, 404)
  for (const prefix of ['/envoy', '/envoy-named'])
    t.equal((await world.call({ path: `${prefix}/public/x`, headers: member })).status, 404)
  for (const more of [
    { 'x-original-uri': '/admin/x' },
    { x_forwarded_uri: '/admin/x' },
    { 'x-forwarded-uri': ['/public/x', '/admin/x'] },
  ])
    t.equal((await call(world.decision, { path: '/authorize', headers: { ...member, ...told, ...more } })).status, 400)
})

t.test('under Envoy’s prefixes the client’s own query chooses nothing about the answer', async (t) => {
  for (const prefix of ['/envoy', '/envoy-named']) {
    const answer = await call(world.decision, { path: `${prefix}/nowhere?statuses=nginx`, headers: member })
    t.equal(answer.status, 404)
    t.equal(answer.headers['x-gateway-status'], undefined)
  }
})
