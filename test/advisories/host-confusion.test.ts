import t from 'tap'
import { call, callRaw } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'

const upstream = await startRawUpstream(t, (socket) => {
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
})

/** Public on every host but one, which requires a credential. */
const routes = [
  openRoute,
  { ...openRoute, id: 'guarded', match: { host: 'admin.example', path: '/*' }, access: 'authenticated' },
]
const gateway = await startTestGateway(t, { routes, upstreams: { platform: { url: upstream.url } } })

const ask = (host: string): Promise<string> =>
  callRaw(gateway.public, `GET /x HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)

// Istio CVE-2021-39155 and Caddy CVE-2026-27588: a host that is spelt in other letters got past the rule for it.
t.test('every spelling of a guarded host is guarded', async (t) => {
  for (const host of [
    'admin.example',
    'ADMIN.example',
    'Admin.Example',
    'admin.example.',
    'admin.example:80',
    'ADMIN.EXAMPLE.:443',
  ])
    t.match(await ask(host), /^HTTP\/1\.1 401 /, host)
  t.same(upstream.received(), [], 'nothing arrived')
})

t.test('a host that two servers read in two ways is refused', async (t) => {
  for (const host of [
    'admin.example:',
    'admin.example:x',
    'admin.example:80:80',
    'x@admin.example',
    'admin.example,x',
    'admin.example/x',
    'admin.example\\x',
    'admin.example?x',
    'admin.example#x',
    'admin.example x',
    'admin%2eexample',
    '[admin.example]',
    '',
    'admin.example..',
    '.admin.example',
    'admin..example',
    '.',
    '*',
    'h;x',
    'h:',
    ':80',
    "h'x",
    'h=5000',
    'h+x',
    '$h',
    '(h)',
    '~h',
    'h!',
    '127.1',
    '127.0.0.1.',
    '0x7f.0.0.1',
    '0x7f000001',
    '2130706433',
    '127.0.0.01',
    '256.0.0.1',
    'h.0x1',
    'h.1',
    '[::1',
    '[::1]x',
    '[::1]:',
    '[::1%25lo]',
    '[127.0.0.1]',
    `${'a'.repeat(64)}.example`,
    `${'a.'.repeat(127)}ab`,
  ])
    t.match(await ask(host), /^HTTP\/1\.1 400 /, host)
  const twice = 'GET /x HTTP/1.1\r\nHost: a\r\nHost: admin.example\r\nConnection: close\r\n\r\n'
  t.match(await callRaw(gateway.public, twice), /^HTTP\/1\.1 400 /, 'two lines')
  const absolute = 'GET http://admin.example/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
  t.match(await callRaw(gateway.public, absolute), /^HTTP\/1\.1 400 /, 'a target that says otherwise')
  t.same(upstream.received(), [], 'nothing arrived')
})

t.test('names, addresses and ports of every kind are hosts', async (t) => {
  for (const host of [
    'h',
    'h.',
    'h:80',
    'h:65535',
    'a-b.example',
    'my_service.ns.svc',
    'xn--bcher-kva.example',
    '1.example',
    '127.0.0.1',
    '127.0.0.1:8080',
    '[::1]',
    '[::1]:8080',
    '[::ffff:127.0.0.1]',
    `${'a'.repeat(63)}.example`,
  ])
    t.match(await ask(host), /^HTTP\/1\.1 200 /, host)
})

// http-proxy-middleware CVE-2026-55602: a host that only holds the name of another was taken for it.
t.test('a host that only holds the name of another is another', async (t) => {
  for (const host of ['xadmin.example', 'admin.example.evil', 'admin.exampl', 'sub.admin.example'])
    t.match(await ask(host), /^HTTP\/1\.1 200 /, host)
})

t.test('the host that a proxy names is read as strictly', async (t) => {
  const judge = (host: string) =>
    call(gateway.decision, {
      path: '/authorize',
      headers: { 'x-forwarded-method': 'GET', 'x-forwarded-uri': '/x', 'x-forwarded-host': host },
    })
  for (const host of ['admin.example', 'ADMIN.example', 'admin.example.', 'admin.example:443'])
    t.equal((await judge(host)).status, 401, host)
  for (const host of [
    'admin.example:',
    'admin.example, x',
    'x@admin.example',
    'admin.example/x',
    'admin.example:99999',
    'admin.example..',
    '*',
    'h;x',
    '127.1',
    '',
  ])
    t.equal((await judge(host)).status, 400, host)
  t.equal((await judge('other.example')).status, 200)
})
