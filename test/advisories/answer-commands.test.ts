import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { findFreePort } from '../../demo/free-port.ts'
import { writeFolder } from '../integrate/ingress/examples.ts'
import { type ProgramName, testProxy } from '../integrate/ingress/programs.ts'
import { startProgram } from '../integrate/ingress/start-program.ts'
import { call, callRaw } from '../support/client.ts'
import { countHeads, openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { accept, handshake, socketRoute } from '../support/websocket.ts'

/** The headers that the page calls dropped; a family by its beginning, with `*` behind it. */
function readTable(): readonly string[] {
  const text = readFileSync(new URL('../../docs/explanation/commanding-headers.md', import.meta.url), 'utf8')
  const rows = text.split('\n').filter((line) => line.endsWith(' yes |'))
  return rows.flatMap((row) => [...(row.split(' | ')[0] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name))
}

const documented = readTable().map((name) => name.toLowerCase())

/** Each by the program that acts on it. */
const known = [
  ...['x-accel-redirect', 'x-accel-expires', 'x-accel-limit-rate', 'x-accel-charset', 'x-accel-any'],
  ...['x-sendfile', 'x-sendfile2', 'x-sendfile-temporary', 'x-send-file', 'x-lighttpd-send-file'],
  ...['x-litespeed-location', 'x-litespeed-cache-control', 'x-litespeed-purge', 'lsc-cookie'],
  ...['x-reproxy-url', 'x-reproxy-file', 'x-reproxy-service', 'x-archive-files', 'x-traffic', 'x-compress-hint'],
  ...['x-envoy-immediate-health-check-fail', 'x-envoy-upstream-canary', 'x-gateway-identity', 'x-gateway-status'],
  ...['surrogate-control', 'surrogate-key', 'edge-control', 'x-varnish-ttl', 'xkey', 'x-esi', 'cf-edge-cache'],
  ...['cache-groups', 'cache-group-invalidation', 'netlify-vary', 'fastly-any', 'fly-replay', 'grip-hold'],
  ...['l5d-success-class', 'x-appengine-blobkey', 'x-middleware-rewrite', 'x-replace-session', 'pagespeedfilters'],
  ...['arr-disable-session-affinity', 'x-hiawatha-cache-remove', 'proxy-authentication-info'],
  ...['x-weblogic-cluster-list', '-wsep', '-ws-haprt-wlmversion', 'am-eai-user-id', 'am-eai-server-task'],
  ...['x-forward', 'x-rewrite-uri', 'x-hashtwo', 'x-kong-limit', 'x-tyk-cache-action-set', 'finagle-http-nack'],
  ...['cf-cloudflared-response-headers'],
]
const commands = [...new Set([...known, ...documented.map((name) => name.replace('*', 'of-any-name'))])]

/** Every character of a name that is neither letter nor digit is `_` to CGI, and so to lighttpd. */
const spell = (name: string): readonly string[] => [
  name,
  name.toUpperCase(),
  ...['_', '.', '+', '~', "'"].map((other) => name.replaceAll('-', other)),
]

const lines = commands.flatMap(spell).map((name) => `${name}: /admin/users\r\n`)

/** A gateway before an upstream that says these lines in every answer. */
async function startPair(t: Test, said: string, settings: Readonly<Record<string, unknown>> = {}, route = openRoute) {
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    if (!soFar.endsWith('\r\n\r\n')) return
    socket.write(said)
  })
  const platform = { url: upstream.url, ...settings }
  const gateway = await startTestGateway(t, { routes: [route], upstreams: { platform } })
  return { gateway, upstream }
}

const namesIn = (text: string): readonly string[] =>
  text.split('\r\n').flatMap((line) => (line.includes(': /admin/users') ? [line.split(':')[0] ?? ''] : []))

const ask = 'GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n'

t.test('no spelling of a header that commands a proxy in front passes', async (t) => {
  const own = 'x-own: 1\r\nlocation: /x\r\nx-accel-buffering: no\r\nset-cookie: a=1\r\nx-request-id: r\r\n'
  const { gateway } = await startPair(t, `HTTP/1.1 200 OK\r\n${own}${lines.join('')}content-length: 2\r\n\r\nhi`)
  const text = await callRaw(gateway.public, ask)
  t.same(namesIn(text), [])
  for (const line of own.trim().split('\r\n')) t.match(text, line, 'what commands nothing passes')
  t.match(text, /\r\n\r\nhi$/)
})

t.test('the page lists each header that is dropped, and each that is known stands there', async (t) => {
  const source = readFileSync(new URL('../../gateway/stages/relay/commanding-headers.ts', import.meta.url), 'utf8')
  const dropped = [...source.matchAll(/'([\w-]+)'/g)].map(([, name]) => name)
  t.same(new Set(documented.map((name) => name.replace('*', ''))), new Set(dropped))
  const isDocumented = (command: string): boolean =>
    documented.some((name) => (name.endsWith('*') ? command.startsWith(name.slice(0, -1)) : command === name))
  t.same(
    known.filter((command) => !isDocumented(command)),
    [],
  )
})

t.test('no header that commands a proxy passes in early heads, upgrades or model streams', async (t) => {
  const all = lines.join('')
  const interim = await startPair(
    t,
    `HTTP/1.1 103 Early Hints\r\n${all}\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n`,
  )
  t.same(namesIn(await callRaw(interim.gateway.public, ask)), [])
  const switching = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n`
  const upgrade = await startPair(t, `${switching}Sec-WebSocket-Accept: ${accept}\r\n${all}\r\n`, {}, socketRoute)
  const switched = await callRaw(upgrade.gateway.public, handshake())
  t.match(switched, /^HTTP\/1.1 101 /)
  t.same(namesIn(switched), [])
  const model = { ...openRoute, surface: 'model' }
  const type = 'content-type: text/event-stream\r\n'
  const stream = await startPair(t, `HTTP/1.1 200 OK\r\n${type}${all}\r\ndata: [DONE]\r\n\r\n`, {}, model)
  t.same(namesIn(await callRaw(stream.gateway.public, ask)), [])
})

t.test('no header that commands a proxy passes in trailers', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sendfile\r\n\r\n'
  const { gateway } = await startPair(t, `${head}0\r\n${lines.join('')}\r\n`)
  const trailed = await callRaw(gateway.public, ask)
  t.match(trailed, /^HTTP\/1.1 (?:200|503) /)
  t.same(namesIn(trailed), [])
})

t.test('an upstream may be trusted with a commanding header, by its name in plain spelling', async (t) => {
  const passResponseHeaders = ['x-accel-redirect', 'x-accel-expires']
  const { gateway } = await startPair(t, `HTTP/1.1 200 OK\r\n${lines.join('')}content-length: 0\r\n\r\n`, {
    passResponseHeaders,
  })
  const passed = namesIn(await callRaw(gateway.public, ask))
  t.same(new Set(passed.map((name) => name.toLowerCase())), new Set(passResponseHeaders))
})

t.test('a name in passResponseHeaders that passes anyhow, or never, is a mistake of the configuration', async (t) => {
  for (const [name, why] of [
    ['etag', /etag passes anyway/],
    ['x-accel-buffering', /x-accel-buffering passes anyway/],
    ['transfer-encoding', /transfer-encoding never passes/],
  ] as const) {
    const upstreams = { platform: { url: 'http://127.0.0.1:1', passResponseHeaders: [name] } }
    await t.rejects(startTestGateway(t, { upstreams, routes: [openRoute] }), why, name)
  }
})

t.test('an event stream tells nginx to hold nothing back, whatever its backend says', async (t) => {
  const stream = (more: string) =>
    `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n${more}content-length: 9\r\n\r\ndata: a\n\n`
  for (const said of ['', 'X-Accel-Buffering: yes\r\n', 'x-accel-buffering: no\r\nX-Accel-Buffering: yes\r\n']) {
    const { gateway } = await startPair(t, stream(said))
    const { headers } = await call(gateway.public, { path: '/x' })
    t.equal(headers['x-accel-buffering'], 'no')
  }
})

t.test('a response header that is a misspelled framing header does not pass', async (t) => {
  const framing = 'Content_Length: 0\r\nTransfer_Encoding: chunked\r\nConnection_: close\r\nkeep.alive: 1\r\n'
  const { gateway } = await startPair(t, `HTTP/1.1 200 OK\r\n${framing}content-length: 2\r\n\r\nhi`)
  const text = await callRaw(gateway.public, ask)
  t.notMatch(text, /content_length|transfer_encoding|keep\.alive/i)
  t.match(text, /\r\n\r\nhi$/)
})

// A wider wall than our own guides: an operator's server that obeys its backends.
type FileSender = Readonly<{
  program: ProgramName
  command: string
  args: readonly string[]
  configure: (folder: string, port: number, behind: string) => readonly string[]
}>

const apacheModules = '/usr/lib/apache2/modules'
const sendsFiles = `${apacheModules}/mod_xsendfile.so`
const noModule = existsSync(sendsFiles)
  ? undefined
  : `there is no ${sendsFiles}: apt-get install libapache2-mod-xsendfile`

const lighttpd: FileSender = {
  program: 'lighttpd',
  command: 'X-Sendfile',
  args: ['-D', '-f', 'server.conf'],
  configure: (folder, port, behind) => [
    'server.modules = ("mod_proxy")',
    `server.document-root = "${folder}"`,
    'server.bind = "127.0.0.1"',
    `server.port = ${port}`,
    `proxy.server = ("" => (("host" => "127.0.0.1", "port" => ${behind}, "x-sendfile" => "enable")))`,
  ],
}

/** As one process, which leaves none behind; as root it becomes another user. */
const apache: FileSender = {
  program: 'apache2',
  command: 'X-SENDFILE',
  args: ['-X', '-f', 'server.conf', '-d', '.'],
  configure: (folder, port, behind) => [
    ...['mpm_event', 'authz_core', 'proxy', 'proxy_http', 'xsendfile'].map(
      (name) => `LoadModule ${name}_module ${apacheModules}/mod_${name}.so`,
    ),
    `DefaultRuntimeDir "${folder}"`,
    'PidFile server.pid',
    'ErrorLog server.log',
    'ServerName localhost',
    `Listen 127.0.0.1:${port}`,
    ...['User nobody', 'Group #65534', 'XSendFile on', `XSendFilePath "${folder}"`],
    `ProxyPass / http://127.0.0.1:${behind}/`,
  ],
}

function testSender(t: Test, path: string, { program, command, args, configure }: FileSender): void {
  for (const [name, passResponseHeaders, expected] of [
    ['obeys a trusted upstream', [command.toLowerCase()], 'a file of the server'],
    ['gets no command of any other', [], 'hi'],
  ] as const)
    t.test(`a ${program} that sends files ${name}`, async (t) => {
      const port = await findFreePort()
      const folder = writeFolder(t, { secret: 'a file of the server' })
      chmodSync(folder, 0o755)
      const said = `HTTP/1.1 200 OK\r\n${command}: ${folder}/secret\r\ncontent-length: 2\r\n\r\nhi`
      const { gateway, upstream } = await startPair(t, said, { passResponseHeaders })
      const conf = configure(folder, port, new URL(gateway.public).port)
      writeFileSync(`${folder}/server.conf`, `${conf.join('\n')}\n`)
      await startProgram(t, { path, args, folder, port })
      t.equal((await call(`http://127.0.0.1:${port}`, { path: '/x' })).text, expected)
      t.equal(countHeads(upstream.received().join('')), 1)
    })
}

testProxy(t, 'lighttpd', async (t, { path }) => testSender(t, path, lighttpd))

testProxy(t, 'apache2', async (t, { path }) =>
  testUnlessLacking(t, 'with mod_xsendfile', async (t) => testSender(t, path, apache), noModule),
)

// Commands without a name: nginx takes a server out after an answer that it cannot read, or none.
testProxy(t, 'nginx', async (t, { path }) => {
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    if (!soFar.endsWith('\r\n\r\n')) return
    const isLarge = soFar.slice(soFar.lastIndexOf('GET ')).startsWith('GET /large')
    const large = isLarge ? `x-large: ${'x'.repeat(9_000)}\r\n` : ''
    socket.write(`HTTP/1.1 200 OK\r\n${large}content-length: 2\r\n\r\nhi`)
  })
  const route = { ...openRoute, match: { path: '/*' } }
  const gateway = await startTestGateway(t, { routes: [route], upstreams: { platform: { url: upstream.url } } })
  const { host: behind } = new URL(gateway.public)
  for (const [name, words, status] of [
    ['by its defaults', 'fail_timeout=600s', 502],
    ['unless it counts no failures', 'max_fails=0', 200],
  ] as const)
    t.test(`an nginx before several gateways takes them out for one large head ${name}`, async (t) => {
      const port = await findFreePort()
      const server = `server ${behind} ${words};`
      const conf = `error_log stderr; pid nginx.pid; daemon off; master_process off; events {}
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  upstream gateways { ${server} ${server} }
  server { listen 127.0.0.1:${port}; location / { proxy_pass http://gateways; } }
}`
      const folder = writeFolder(t, { 'nginx.conf': conf })
      await startProgram(t, { path, args: ['-p', folder, '-c', 'nginx.conf'], folder, port })
      const front = `http://127.0.0.1:${port}`
      t.equal((await call(front, { path: '/small' })).status, 200)
      for (let round = 0; round < 2; round += 1) t.equal((await call(front, { path: '/large' })).status, 502)
      t.equal((await call(front, { path: '/small' })).status, status)
    })
})
