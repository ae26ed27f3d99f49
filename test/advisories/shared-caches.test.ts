import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { findFreePort } from '../../demo/free-port.ts'
import { writeFolder } from '../integrate/ingress/examples.ts'
import { testProxy } from '../integrate/ingress/programs.ts'
import { startProgram } from '../integrate/ingress/start-program.ts'
import { call } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const owner = oauth(world.users.owner)
const client = oauth(world.users.client)

/** The next head of its upstream. */
let head = ''
const upstream = await startRawUpstream(t, (socket, soFar) => {
  if (soFar.endsWith('\r\n\r\n')) socket.write(head, 'latin1')
})

type Settings = Readonly<Record<string, unknown>>

/** A gateway before it, and what a client gets of these lines. */
async function startAsking(t: Test, settings: Settings = {}, isPublic = false) {
  const platform = { url: upstream.url, ...settings }
  const routes = isPublic ? { routes: [openRoute] } : {}
  const gateway = await startTestGateway(t, { world, upstreams: { platform }, ...routes })
  return (lines: readonly string[], status = 200) => {
    const length = status === 304 ? [] : ['content-length: 0']
    head = [`HTTP/1.1 ${status} X`, ...lines, ...length, '', ''].join('\r\n')
    return call(gateway.public, { path: '/public/x', headers: owner })
  }
}

const valuesOf = (rawHeaders: readonly string[], name: string): readonly string[] =>
  rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === name)

const cases: readonly (readonly [lines: readonly string[], expected: readonly string[]])[] = [
  [[], ['private']],
  [['expires: Thu, 01 Jan 2037 00:00:00 GMT'], ['private']],
  [['cache-control: max-age=60'], ['max-age=60, private']],
  [['Cache-Control: max-age=60', 'CACHE-CONTROL: no-transform'], ['max-age=60, no-transform, private']],
  [['cache-control: no-cache'], ['no-cache, private']],
  [['cache-control:'], ['private']],
  [[`cache-control: ${'max-age=60, '.repeat(800)}public`], ['no-store']],
  // Values that already restrict caches stay unchanged, on their own lines.
  ...[
    'public',
    'PUBLIC, max-age=9',
    'max-age=9 ,Private',
    'no-store',
    'must-revalidate',
    's-maxage=5',
    's-maxage="5"',
  ].map((said) => [[`cache-control: ${said}`], [said]] as const),
  [
    ['cache-control: max-age=60', 'cache-control: public'],
    ['max-age=60', 'public'],
  ],
  [['cache-control: x="a\\", b", public'], ['x="a\\", b", public']],
  // About some fields alone, within a quoted text, malformed, or another word.
  ...[
    'private="set-cookie"',
    'no-store=x',
    'x="a, public"',
    'x="\\", public"',
    's-maxage=',
    's-maxage=x',
    'publicly',
    'proxy-revalidate',
    'public;a',
    // A space of Latin-1 makes another word of it to caches.
    'private\xa0',
    '\xa0no-store, max-age=9',
  ].map((said) => [[`cache-control: ${said}`], [`${said}, private`]] as const),
  [['cache-control: public, x="a'], ['private']],
  [['cache-control: x="a', 'cache-control: b", public'], ['private']],
  // RFC 9111 5.4.
  [['pragma: no-cache'], ['no-cache']],
  [['Pragma: x, No-Cache'], ['no-cache']],
  [['pragma: x'], ['private']],
  [['pragma: no-cache\xa0'], ['private']],
  [['pragma: no-cache', 'cache-control: max-age=60'], ['max-age=60, private']],
  // A line for the connection alone says nothing of the answer.
  [['connection: cache-control', 'cache-control: public'], ['private']],
  // Another spelling is another header, or this one to some caches.
  [['cache_control: public'], ['private']],
]

t.test('an answer of a route that is not public says what shared caches may do with it', async (t) => {
  const ask = await startAsking(t)
  for (const [lines, expected] of cases) {
    const { rawHeaders } = await ask(lines)
    t.same(valuesOf(rawHeaders, 'cache-control'), expected, lines.join(' | '))
    t.same(valuesOf(rawHeaders, 'cache_control'), [])
  }
  for (const status of [203, 301, 304, 404, 500])
    t.same(valuesOf((await ask([], status)).rawHeaders, 'cache-control'), ['private'], String(status))
})

const targeted = ['cdn-cache-control', 'cloudflare-cdn-cache-control', 'example-cache-control', 'CDN_Cache_Control']

t.test('a field for some caches alone does not overrule Cache-Control (RFC 9213)', async (t) => {
  const lines = targeted.map((name) => `${name}: max-age=600`)
  const { rawHeaders } = await (await startAsking(t))(lines)
  t.same(
    targeted.flatMap((name) => valuesOf(rawHeaders, name.toLowerCase())),
    [],
  )
  const passResponseHeaders = ['cdn-cache-control']
  const passed = await (await startAsking(t, { passResponseHeaders }))(lines)
  t.same(valuesOf(passed.rawHeaders, 'cdn-cache-control'), ['max-age=600'])
})

t.test('public routes and cache: pass leave Cache-Control to the upstream', async (t) => {
  const askPassing = await startAsking(t, { cache: 'pass' })
  const lines = ['cache-control: max-age=60', 'cdn-cache-control: max-age=600', 'pragma: no-cache']
  for (const { rawHeaders } of [await (await startAsking(t, {}, true))(lines), await askPassing(lines)]) {
    t.same(valuesOf(rawHeaders, 'cache-control'), ['max-age=60'])
    t.same(valuesOf(rawHeaders, 'cdn-cache-control'), ['max-age=600'])
  }
  t.same(valuesOf((await askPassing([])).rawHeaders, 'cache-control'), [])
})

t.test('cluster.cache says whether answers of tenants’ clusters are private or pass', async (t) => {
  const path = `/clusters/${world.clusters.healthy}/proxy/x`
  for (const [cache, expected] of [
    [undefined, ['max-age=60, private', undefined, 'private']],
    ['private', ['max-age=60, private', undefined, 'private']],
    ['pass', ['max-age=60', 'max-age=600', undefined]],
  ] as const) {
    const cluster = { networks: { allow: ['127.0.0.0/8'] }, ...(cache && { cache }) }
    const gateway = await startTestGateway(t, { world, settings: { cluster } })
    const ask = async (headers: Readonly<Record<string, string>>) =>
      (
        await call(gateway.public, {
          path,
          headers: { ...owner, 'x-demo-answer': JSON.stringify({ status: 200, headers }) },
        })
      ).headers
    const said = await ask({ 'cache-control': 'max-age=60', 'cdn-cache-control': 'max-age=600' })
    t.same(
      [said['cache-control'], said['cdn-cache-control'], (await ask({}))['cache-control']],
      expected,
      cache ?? 'by default',
    )
  }
})

t.test('answers of clusters and event streams are kept from shared caches too', async (t) => {
  const cluster = await world.call({ path: `/clusters/${world.clusters.healthy}/proxy/x`, headers: owner })
  t.same([cluster.status, cluster.headers['cache-control']], [200, 'private'])
  const stream = await world.call({
    method: 'POST',
    path: `/agent/${world.agents.acme}/responses`,
    headers: { ...owner, 'content-type': 'application/json' },
    body: JSON.stringify({ input: 'x', stream: true }),
  })
  t.match(stream.headers['content-type'], /event-stream/)
  t.match(stream.headers['cache-control'], /private|no-store/)
})

t.test('the gateway’s own answers are never stored', async (t) => {
  for (const [path, headers, status] of [
    ['/users/me', owner, 200],
    ['/users/me/abilities', owner, 200],
    ['/users/me', {}, 401],
    ['/admin/x', client, 403],
    ['/nowhere', owner, 404],
    ['/public/../x', owner, 400],
  ] as const) {
    const answer = await world.call({ path, headers })
    t.same([answer.status, answer.headers['cache-control']], [status, 'no-store'], path)
  }
  t.match(await world.raw('NONSENSE\r\n\r\n'), /\r\ncache-control: no-store\r\n/)
  t.match(
    await world.raw('GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: odd\r\n\r\n'),
    /\r\ncache-control: no-store\r\n/,
  )
  const original = { 'x-original-method': 'GET', 'x-original-uri': '/datasets' }
  for (const headers of [owner, {}]) {
    const decided = await call(world.decision, { path: '/authorize', headers: { ...original, ...headers } })
    t.equal(decided.headers['cache-control'], 'no-store')
  }
  const gateway = await startTestGateway(t, { world, settings: { cors: { origins: ['https://app.example'] } } })
  const preflight = { origin: 'https://app.example', 'access-control-request-method': 'GET' }
  const answer = await call(gateway.public, { method: 'OPTIONS', path: '/datasets', headers: preflight })
  t.same([answer.status, answer.headers['cache-control']], [204, 'no-store'])
})

// By default Varnish keeps an answer without Cache-Control for two minutes, and gives it to clients without
// Authorization.
testProxy(t, 'varnishd', async (t, { path }) => {
  const server = createServer((_request, response) => void response.end('for the owner'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close().closeAllConnections())
  const platform = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` } // a TCP listener's
  for (const [name, settings, isKept] of [
    ['keeps what it is not told of', { cache: 'pass' }, true],
    ['serves an owner’s answer to the owner alone', {}, false],
  ] as const)
    t.test(`Varnish by its default rules ${name}`, async (t) => {
      const gateway = await startTestGateway(t, { world, upstreams: { platform: { ...platform, ...settings } } })
      const { port: behind } = new URL(gateway.public)
      const port = await findFreePort()
      const folder = writeFolder(t, {
        'default.vcl': `vcl 4.1;\nbackend default { .host = "127.0.0.1"; .port = "${behind}"; }\n`,
      })
      const args = ['-F', '-n', folder, '-a', `127.0.0.1:${port}`, '-f', `${folder}/default.vcl`, '-j', 'none']
      await startProgram(t, { path, args, folder, port })
      const front = `http://127.0.0.1:${port}`
      for (let round = 0; round < 2; round += 1) {
        const first = await call(front, { path: '/admin/z', headers: owner })
        t.same([first.status, first.text], [200, 'for the owner'])
        for (const [headers, status] of [
          [client, 403],
          [{}, 401],
        ] as const)
          t.equal((await call(front, { path: '/admin/z', headers })).status, isKept ? 200 : status)
      }
      if (isKept) return
      const refused = await call(front, { path: '/admin/y', headers: client })
      t.equal(refused.status, 403)
      t.equal((await call(front, { path: '/admin/y', headers: owner })).status, 200, 'a refusal is not kept either')
    })
})
