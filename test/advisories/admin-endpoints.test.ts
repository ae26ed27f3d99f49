import t from 'tap'
import { isLoopback } from '../../gateway/base/lib/loopback.ts'
import { call, callRaw } from '../support/client.ts'
import { anyPort, startTestGateway } from '../support/gateway.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { owner } = world.users

const pages = [
  '/healthz',
  '/readyz',
  '/metrics',
  '/.well-known/jwks.json',
  '/',
  '/console',
  '/console/live',
  '/debug',
  '/config',
  '/reload',
]

// ingress-nginx CVE-2025-1974, Caddy CVE-2026-27589: what was meant for the neighbourhood was open to more than that.
t.test('no page of the operator is on a listener of others', async (t) => {
  await world.clearRecorder()
  const { host: adminHost } = new URL(world.admin)
  for (const origin of [world.public, world.decision])
    for (const path of pages)
      for (const headers of [
        {},
        oauth(owner),
        { host: adminHost },
        { 'x-forwarded-host': adminHost, 'x-forwarded-for': '127.0.0.1' },
      ]) {
        const answer = await call(origin, { path, headers })
        t.equal(answer.status, 404, `${origin} ${path}`)
        t.notMatch(answer.text, /sallyport_|"checks"|"keys"|alive|<html|data-live/)
      }
  t.same(await world.recorded(), [])
})

t.test('the operator’s pages can be read and nothing else', async (t) => {
  await world.clearRecorder()
  for (const path of pages)
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const headers = { origin: 'https://evil.example', 'access-control-request-method': 'POST' }
      const answer = await call(world.admin, { method, path, headers })
      t.equal(answer.status, 405, `${method} ${path}`)
      t.equal(answer.headers['access-control-allow-origin'], undefined)
    }
  for (const path of ['/datasets', '/users/me', '/authorize', '/../etc/passwd', '/%2e%2e/x', '//x', '/public/x'])
    t.equal((await call(world.admin, { path, headers: oauth(owner) })).status, 404, path)
  t.same(await world.recorded(), [], 'nothing arrived')
})

t.test('the operator’s pages tell nothing about a user, and nothing private', async (t) => {
  await world.call({ path: '/users/me', headers: oauth(owner) })
  for (const path of ['/', '/console/live', '/healthz', '/readyz', '/metrics', '/.well-known/jwks.json']) {
    const { status, text, headers } = await call(world.admin, { path, headers: { origin: 'https://evil.example' } })
    t.equal(status, 200, path)
    t.equal(headers['access-control-allow-origin'], undefined)
    t.equal(headers['cache-control'], 'no-store')
    t.equal(headers['cross-origin-resource-policy'], 'same-origin')
    t.notMatch(text, /postgres:|demo\.example|eyJ|oat_|"d":|PRIVATE/)
  }
})

// DNS rebinding: a page of another site that leads its own name to 127.0.0.1 reads what this machine alone may.
t.test('a loopback listener answers to its addresses and to localhost alone', async (t) => {
  const { port } = new URL(world.admin)
  for (const host of ['evil.example', `evil.example:${port}`, 'localhost.evil.example', '127.0.0.1.evil.example'])
    for (const path of pages) {
      const answer = await call(world.admin, { path, headers: { host } })
      t.equal(answer.status, 421, `${host} ${path}`)
      t.notMatch(answer.text, /sallyport_|"checks"|"keys"|alive|<html|data-live/)
    }
  for (const host of ['localhost', `127.0.0.1:${port}`, '[::1]'])
    t.equal((await call(world.admin, { path: '/metrics', headers: { host } })).status, 200, host)
})

t.test(
  'however its address is written, a listener on loopback is one; a wider one answers probes at any host',
  async (t) => {
    for (const [host, status] of [
      ['LOCALHOST', 421],
      ['127.1', 421],
      ['127.0.0.2', 421],
      ['0.0.0.0', 200],
    ] as const) {
      const listeners = { public: anyPort, decision: anyPort, admin: { host, port: 0 } }
      const gateway = await startTestGateway(t, { world, settings: { listeners } })
      for (const path of ['/', '/healthz', '/metrics'])
        t.equal(
          (await call(gateway.admin, { path, headers: { host: 'evil.example' } })).status,
          status,
          `${host} ${path}`,
        )
      t.equal((await call(gateway.admin, { path: '/healthz', headers: { host: '127.0.0.1' } })).status, 200, host)
    }
    for (const address of ['127.0.0.1', '127.255.0.1', '::1', '::ffff:127.0.0.1']) t.ok(isLoopback(address), address)
    for (const address of ['::', '0.0.0.0', '10.0.0.1', '::ffff:10.0.0.1', '127.example'])
      t.notOk(isLoopback(address), address)
  },
)

// A page of another site cannot read the answer, yet each request would make the database and decision points work.
t.test('another site makes no operator’s browser ask the directory', async (t) => {
  const path = `/console/who-may?method=GET&path=/datasets&organization=${world.organizations.acme.id}`
  for (const site of ['cross-site', 'same-site', 'CROSS-SITE', 'other']) {
    const { status, text } = await call(world.admin, { path, headers: { 'sec-fetch-site': site } })
    t.equal(status, 403, site)
    t.notMatch(text, /<html/)
  }
  for (const headers of [{}, { 'sec-fetch-site': 'none' }, { 'sec-fetch-site': 'same-origin' }])
    t.match(await call(world.admin, { path, headers }), { status: 200, text: /Members of organization/ })
  const linked = await call(world.admin, { path: '/', headers: { 'sec-fetch-site': 'cross-site' } })
  t.equal(linked.status, 200, 'a link leads to the console')
})

t.test('a health check without Host is answered as one with it, and no other page is', async (t) => {
  for (const version of ['1.0', '1.1'])
    for (const lines of ['', 'Host:\r\n'])
      for (const method of ['GET', 'HEAD', 'OPTIONS']) {
        const ask = (path: string, more = ''): Promise<string> =>
          callRaw(world.admin, `${method} ${path} HTTP/${version}\r\n${lines}${more}Connection: close\r\n\r\n`)
        const told = `${method} of HTTP/${version} ${lines}`
        for (const path of ['/healthz', '/readyz', '/readyz?from=haproxy'])
          t.match(await ask(path), /^HTTP\/1\.1 200 /, `${told} ${path}`)
        for (const path of [...pages.slice(2), '/healthz/', '/readyz/../metrics', '//healthz', '/x?/healthz'])
          t.match(await ask(path), /^HTTP\/1\.1 400 /, `${told} ${path}`)
        const foreign = callRaw(
          world.admin,
          `${method} /healthz HTTP/${version}\r\nHost: evil.example\r\nConnection: close\r\n\r\n`,
        )
        t.match(await foreign, /^HTTP\/1\.1 421 /, `${told} of another name`)
      }
  for (const lines of ['Host: localhost\r\nHost: localhost', 'Host: a@localhost', 'Host: localhost/x', 'Host: a, b'])
    for (const path of pages) {
      const answer = await callRaw(world.admin, `GET ${path} HTTP/1.1\r\n${lines}\r\n\r\n`)
      t.match(answer, /^HTTP\/1\.1 400 [\s\S]*connection: close/i, `${lines} ${path}`)
    }
  const preflight =
    'OPTIONS /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nConnection: close\r\n\r\n'
  t.match(await callRaw(world.admin, preflight), /^HTTP\/1\.1 405 /, 'a browser’s preflight')
})
