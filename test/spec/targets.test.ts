import { posix } from 'node:path'
import t, { type Test } from 'tap'
import { callRaw } from '../support/client.ts'
import { openRawClient, openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { testVectors } from '../support/vectors.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const host = 'Host: h\r\n'
const credential = `x-oauth-access-token: ${world.users.member.jwt}\r\n`
const close = 'Connection: close\r\n'

const get = (target: string, lines = ''): string => `GET ${target} HTTP/1.1\r\n${host}${credential}${lines}`

const statusesOf = (text: string): readonly number[] =>
  [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status))

const statusOf = async (bytes: string): Promise<number> => statusesOf(await world.raw(bytes))[0] ?? 0

/** Each target with its status, for a caller who may use /public and /datasets. */
async function expectTargets(t: Test, status: number, targets: readonly string[]): Promise<void> {
  await world.clearRecorder()
  for (const target of targets) t.equal(await statusOf(`${get(target, close)}\r\n`), status, JSON.stringify(target))
  const reached = (await world.recorded()).map(({ requestLine }) => requestLine)
  t.same(reached, status === 200 ? targets.map((target) => `GET ${target} HTTP/1.1`) : [])
}

const refusals: Readonly<Record<string, readonly string[]>> = {
  'a dot segment': ['/public/.', '/public/..', '/public/./x', '/public/a/../x', '/..', '/./public/x', '/public/x/..'],
  'an encoded dot segment': ['/public/%2e', '/public/%2E%2e/x', '/public/.%2e/x', '/public/%2e./x', '/%2e%2e/public/x'],
  'a dot segment after two decodings': [
    '/public/%252e%252e/x',
    '/public/%252e/x',
    '/public/.%252e/x',
    '/public/%25%32%65%25%32%65/x',
  ],
  'an encoded slash': ['/public/a%2fb', '/public/a%2Fb', '/public/%2f', '/public%2fx', '/public/..%2fadmin'],
  'an encoded slash after two decodings': ['/public/a%252fb', '/public/a%25%32%46b'],
  'a backslash': ['/public/a\\b', '/public/..\\admin\\x', '\\public\\x', '/public\\..\\admin'],
  'an encoded backslash': ['/public/a%5cb', '/public/a%5Cb', '/public/a%255cb'],
  'an encoded NUL or control byte': [
    '/public/%00',
    '/public/a%0ab',
    '/public/a%0d%0ab',
    '/public/%09',
    '/public/%7f',
    '/public/%1b',
    '/public/%C2%85',
    '/public/%2500',
    '/public/%250a',
  ],
  'dots hidden behind a path parameter': [
    '/public/..;/admin/x',
    '/public/..;a=b/admin/x',
    '/public/.;/x',
    '/public/%2e%2e;/x',
    '/public/..%3b/x',
    '/public/..%3B/x',
    '/public/..%253b/x',
    '/public/;/x',
    '/public/;a/x',
    '/;/public/x',
  ],
  'an empty segment': ['//', '//public/x', '/public//x', '/public/x//', '///public/x', '//h/public/x'],
  'a fragment': ['/public/x#', '/public/x#y', '/#/public/x', '/public/x?y#z'],
  'an invalid escape': ['/public/%', '/public/%2', '/public/%zz', '/public/100%', '/public/%u002e', '/public/%%32e'],
  'invalid or overlong UTF-8': [
    '/public/%ff',
    '/public/%c0%ae%c0%ae/x',
    '/public/%c0%af',
    '/public/%e0%80%af',
    '/public/%ed%a0%80',
    '/public/%80',
    '/public/%f4%90%80%80',
    '/public/%25c0%25af',
  ],
  'bytes beyond visible ASCII': ['/public/caf\xc3\xa9', '/public/\x80', '/public/x?caf\xe9', '/public/\x7f'],
  'no origin form': ['public/x', '*', 'h:80', 'x:/public/x', '?x', 'http:/public/x', 'http:///public/x'],
  'an absolute form of another host': [
    'http://other/public/x',
    'https://other/public/x',
    'http://h:80/public/x',
    'http://user@h/public/x',
    'http://h@other/public/x',
    'http://other\\@h/public/x',
    'ftp://h/public/x',
  ],
}
for (const [what, targets] of Object.entries(refusals)) t.test(`${what} is 400`, (t) => expectTargets(t, 400, targets))

t.test('odd but legal targets pass byte for byte', (t) =>
  expectTargets(t, 200, [
    '/public/x?',
    '/public/a;b',
    '/public/a;b=../c'.replace('/c', ''),
    '/public/a;b/c;d=e',
    '/public/100%25',
    '/public/%25zz',
    '/public/%252541',
    '/public/a%20b%2bc',
    '/public/%C3%A9',
    '/public/...',
    '/public/.x',
    '/public/x..',
    '/public/~!$&()*+,:=@|^`{}<>"[]',
    '/public/x/',
    '/public/x?/../../admin/x',
    '/public/x?a=%2e%2e%2f%00&b=%zz',
    '/datasets?page=1',
  ]),
)

t.test('a trailing slash is another path, and * matches at least one character', (t) =>
  expectTargets(t, 404, [
    '/datasets/',
    '/public',
    '/public/',
    '/PUBLIC/x',
    '/Datasets',
    '/datasets;x',
    '/',
    '/data%73ets/',
  ]),
)

t.test('an escape that spells a letter names the same path, and goes out as it came', async (t) => {
  await expectTargets(t, 200, ['/%70ublic/x', '/datase%74s'])
  await expectTargets(t, 403, ['/%61dmin/x', '/admi%6e/x'])
})

t.test('an absolute form of the request’s own host means its path', async (t) => {
  await world.clearRecorder()
  for (const target of ['http://h/public/x?y', 'HTTP://H/public/x?y', 'https://h/public/x?y'])
    t.equal(await statusOf(`${get(target, close)}\r\n`), 200, target)
  t.same(
    (await world.recorded()).map(({ requestLine }) => requestLine),
    Array(3).fill('GET /public/x?y HTTP/1.1'),
  )
  t.equal(await statusOf(`${get('http://h/admin/x', close)}\r\n`), 403)
})

t.test('a target of 8 KiB passes, a longer one is 414', async (t) => {
  const target = `/public/${'x'.repeat(8192 - '/public/'.length)}`
  await expectTargets(t, 200, [target])
  await expectTargets(t, 414, [`${target}x`, `/public/x?${'y'.repeat(8192)}`])
})

t.test('a target beyond what the parser takes is 414 as well', async (t) => {
  const { text } = await closedAfter(t, `GET /public/${'x'.repeat(70_000)} HTTP/1.1\r\n${host}\r\n`)
  t.match(text, /^HTTP\/1\.1 414 /)
})

t.test('headers of 24 KiB pass, larger ones are 431', async (t) => {
  const fill = (bytes: number): string => {
    const used = [...`${host}${credential}${close}`].length
    return `${get('/public/x', close)}x-fill: ${'x'.repeat(bytes - used - 'x-fill: \r\n'.length)}\r\n\r\n`
  }
  t.equal(await statusOf(fill(24 * 1024)), 200)
  await world.clearRecorder()
  t.equal(await statusOf(fill(24 * 1024 + 1)), 431)
  t.equal(await statusOf(`${get('/public/x')}${'a: b\r\n'.repeat(5000)}\r\n`), 431, 'by their number')
  t.same(await world.recorded(), [])
})

t.test('headers beyond what the parser takes are 431 as well', async (t) => {
  const { text } = await closedAfter(t, `GET /public/x HTTP/1.1\r\n${host}x-long: ${'x'.repeat(200_000)}\r\n\r\n`)
  t.match(text, /^HTTP\/1\.1 431 /)
})

t.test('methods that no route takes are 405 with Allow', async (t) => {
  await world.clearRecorder()
  for (const method of ['TRACE', 'CONNECT', 'PROPFIND', 'MKCOL', 'PURGE', 'M-SEARCH', 'LINK']) {
    const target = method === 'CONNECT' ? 'h:80' : '/public/x'
    const text = await world.raw(`${method} ${target} HTTP/1.1\r\n${host}${credential}${close}\r\n`)
    t.same(statusesOf(text), [405], method)
    t.match(text, /\r\nallow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n/i, method)
  }
  t.same(await world.recorded(), [])
})

t.test('a known path with another method is 405 with the methods it takes', async (t) => {
  await world.clearRecorder()
  for (const method of ['POST', 'OPTIONS', 'DELETE']) {
    const text = await world.raw(`${method} /workflows/1 HTTP/1.1\r\n${host}${credential}${close}\r\n`)
    t.same(statusesOf(text), [405])
    t.match(text, /\r\nallow: GET, HEAD\r\n/i)
  }
  t.same(await world.recorded(), [])
})

t.test('an unknown word for a method is 501', async (t) => {
  for (const method of ['BREW', 'get', 'GETX', 'X-Y'])
    t.equal(await statusOf(`${method} /public/x HTTP/1.1\r\n${host}${credential}\r\n`), 501, method)
})

t.test('an Expect that is not 100-continue is 417', async (t) => {
  await world.clearRecorder()
  for (const value of ['something-else', '200-ok', '100-continue, x', ''])
    t.equal(await statusOf(`${get('/public/x')}Expect: ${value}\r\n\r\n`), 417, value)
  t.same(await world.recorded(), [])
})

/** All bytes until the gateway closed the connection, which the request does not ask for. */
async function closedAfter(t: Test, bytes: string, origin = world.public): Promise<{ text: string }> {
  const client = await openRawClient(t, origin)
  client.send(bytes)
  return { text: await client.closed() }
}

const post = (lines: string, body = ''): string => `POST /public/x HTTP/1.1\r\n${host}${credential}${lines}\r\n${body}`

const framings: Readonly<Record<string, string>> = {
  'no Host': `GET /public/x HTTP/1.1\r\n${credential}\r\n`,
  'no Host on HTTP/1.0': `GET /public/x HTTP/1.0\r\n${credential}\r\n`,
  'an empty Host': `GET /public/x HTTP/1.1\r\nHost:\r\n${credential}\r\n`,
  'two Hosts': `GET /public/x HTTP/1.1\r\nHost: h\r\nHost: h\r\n${credential}\r\n`,
  'two different Hosts': `GET /public/x HTTP/1.1\r\nHost: h\r\nhost: other\r\n${credential}\r\n`,
  ...Object.fromEntries(
    [
      'user@h',
      'h/path',
      'a,b',
      'a, b',
      'h:port',
      'h:1:2',
      'h?x',
      'h#x',
      'a b',
      'h\\x',
      '[::1',
      '[x]',
      '[]',
      '%zz',
      ':80',
      'h:99999',
      '[::::]',
      'caf\xe9',
      '<h>',
      '"h"',
    ].map((value) => [`the Host ${value}`, `GET /public/x HTTP/1.1\r\nHost: ${value}\r\n${credential}\r\n`]),
  ),
  'GET *': `GET * HTTP/1.1\r\n${host}${credential}\r\n`,
  'OPTIONS *': `OPTIONS * HTTP/1.1\r\n${host}${credential}\r\n`,
  'the absolute form of another host': `GET http://other/public/x HTTP/1.1\r\n${host}${credential}\r\n`,
  'an empty Transfer-Encoding': post('Transfer-Encoding:\r\n'),
  'Transfer-Encoding twice': post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'),
  'Transfer-Encoding on HTTP/1.0': `POST /public/x HTTP/1.0\r\n${host}${credential}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'Transfer-Encoding beside Content-Length': post('Transfer-Encoding: chunked\r\nContent-Length: 5\r\n', '0\r\n\r\n'),
  'Content-Length beside Transfer-Encoding': post('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'),
  'Content-Length twice': post('Content-Length: 1\r\nContent-Length: 1\r\n', 'x'),
  'two different Content-Lengths': post('Content-Length: 1\r\nContent-Length: 2\r\n', 'xx'),
  ...Object.fromEntries(
    ['1, 1', '+1', '-1', '0x1', '1 1', '1.0', 'one', '', '99999999999999999999', '1;x'].map((value) => [
      `the Content-Length "${value}"`,
      post(`Content-Length: ${value}\r\n`, 'x'),
    ]),
  ),
  ...Object.fromEntries(
    ['Content_Length: 1', 'content.length: 1', 'Transfer_Encoding: chunked', 'Transfer.Encoding: chunked'].map(
      (line) => [`the alias ${line}`, post(`${line}\r\n`, '0\r\n\r\n')],
    ),
  ),
  'a space before a colon': get('/public/x', 'Content-Length : 1\r\n\r\nx'),
  'a space before another colon': get('/public/x', 'x-odd : 1\r\n\r\n'),
  'a folded line': get('/public/x', 'x-odd: a\r\n b\r\n\r\n'),
  'a NUL in a value': get('/public/x', 'x-odd: a\x00b\r\n\r\n'),
  'a NUL in a name': get('/public/x', 'x-\x00odd: a\r\n\r\n'),
  'a bare CR in a value': get('/public/x', 'x-odd: a\rb\r\n\r\n'),
  'a bare LF behind a line': get('/public/x', 'x-odd: a\nx-more: b\r\n\r\n'),
  'a bare LF behind the request line': `GET /public/x HTTP/1.1\n${host}${credential}\r\n`,
  'a bare LF at the end of the head': `GET /public/x HTTP/1.1\r\n${host}${credential}\n`,
  'a line without a colon': get('/public/x', 'odd\r\n\r\n'),
  'a name that is no token': get('/public/x', 'x(odd): a\r\n\r\n'),
  'an empty name': get('/public/x', ': a\r\n\r\n'),
  'the version 0.9': 'GET /public/x\r\n\r\n',
  'the version 1.2': `GET /public/x HTTP/1.2\r\n${host}${credential}\r\n`,
  'the version 2.0': `GET /public/x HTTP/2.0\r\n${host}${credential}\r\n`,
  'the version 1.10': `GET /public/x HTTP/1.10\r\n${host}${credential}\r\n`,
  'a version in small letters': `GET /public/x http/1.1\r\n${host}${credential}\r\n`,
  'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'a tab before the target': `GET\t/public/x HTTP/1.1\r\n${host}${credential}\r\n`,
  'a space before the method': ` GET /public/x HTTP/1.1\r\n${host}${credential}\r\n`,
  'a space in the target': `GET /public/x y HTTP/1.1\r\n${host}${credential}\r\n`,
  'a bare CR in the target': `GET /public/\rx HTTP/1.1\r\n${host}${credential}\r\n`,
  'a NUL in the target': `GET /public/\x00x HTTP/1.1\r\n${host}${credential}\r\n`,
  'a TLS hello': '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
  'a chunk size that is none': post('Transfer-Encoding: chunked\r\n', 'x\r\n\r\n'),
  'a chunk longer than its size': post('Transfer-Encoding: chunked\r\n', '1\r\nxy\r\n0\r\n\r\n'),
  'a chunk size in bare LF': post('Transfer-Encoding: chunked\r\n', '1\nx\r\n0\r\n\r\n'),
  'a signed chunk size': post('Transfer-Encoding: chunked\r\n', '+1\r\nx\r\n0\r\n\r\n'),
  'a chunk size beyond 64 bits': post('Transfer-Encoding: chunked\r\n', '10000000000000001\r\nx\r\n0\r\n\r\n'),
}
for (const [what, bytes] of Object.entries(framings)) {
  t.test(`${what} is 400, and the connection closes`, async (t) => {
    await world.clearRecorder()
    const { text } = await closedAfter(t, bytes)
    t.same(statusesOf(text), [400])
    t.match(text, /\r\nconnection: close\r\n/i)
    const complete = (await world.recorded()).filter(({ bodyComplete }) => bodyComplete)
    t.same(complete, [], 'no whole request reached a backend')
  })
}

t.test('the keys on the public listener follow the same rules', async (t) => {
  const identity = { keys: ['file:identity.pem'], publishOnPublicListener: true }
  const gateway = await startTestGateway(t, { routes: [openRoute], settings: { identity } })
  const ask = async (lines: string): Promise<string> => {
    const client = await openRawClient(t, gateway.public)
    client.send(`GET /.well-known/jwks.json HTTP/1.1\r\n${lines}\r\n`)
    return client.until(/\r\n\r\n\{.*\}$/s)
  }
  t.match(await ask(host), /^HTTP\/1\.1 200 .*"keys":/s)
  const odd = ['', `${host}${host}`, 'Host: a@b\r\n', 'Host: a, b\r\n', `${host}Content_Length: 1\r\n`]
  for (const lines of odd) t.match(await ask(lines), /^HTTP\/1\.1 400 .*\r\nconnection: close\r\n/is, lines)
  t.match(await ask(`${host}x-fill: ${'x'.repeat(25_000)}\r\n`), /^HTTP\/1\.1 431 /)
})

t.test('an unknown Transfer-Encoding is 501, and the connection closes', async (t) => {
  await world.clearRecorder()
  for (const value of ['gzip', 'identity', 'gzip, chunked', 'chunked, gzip', 'xchunked', 'chunkedx']) {
    const { text } = await closedAfter(t, post(`Transfer-Encoding: ${value}\r\n`, '0\r\n\r\n'))
    t.same(statusesOf(text), [501], value)
  }
  t.same(await world.recorded(), [])
})

for (const value of ['chunked, chunked', '\x0bchunked', '"chunked"', 'chunked;x', ',chunked', 'chunked\x0b']) {
  t.test(`the Transfer-Encoding ${JSON.stringify(value)} is refused, and the connection closes`, async (t) => {
    await world.clearRecorder()
    const { text } = await closedAfter(t, post(`Transfer-Encoding: ${value}\r\n`, '0\r\n\r\n'))
    t.ok([400, 501].includes(statusesOf(text)[0] ?? 0), text)
    t.same(await world.recorded(), [])
  })
}

t.test('refusals of unreadable bytes come in the platform shape', async (t) => {
  const { text } = await closedAfter(t, 'nonsense\r\n\r\n')
  const body = JSON.parse(text.slice(text.indexOf('\r\n\r\n')))
  t.match(body, { success: false, message: String, error: { status: 400, code: 'headers_malformed' } })
})

t.test('bytes after an ambiguous head are never read as a request', async (t) => {
  const smuggled = `${get('/public/smuggled')}\r\n`
  for (const [what, lines] of [
    ['an alias of Content-Length', `Content_Length: ${smuggled.length}\r\n`],
    ['a second Host', 'Host: other\r\n'],
    ['both framings', `Content-Length: ${smuggled.length}\r\nTransfer-Encoding: chunked\r\n`],
  ] as const) {
    await world.clearRecorder()
    const { text } = await closedAfter(t, post(lines, smuggled))
    t.same(statusesOf(text), [400], what)
    t.same(await world.recorded(), [], what)
  }
})

t.test('a refused connection closes even when its client never does', async (t) => {
  const client = await openRawClient(t, world.public)
  client.socket.allowHalfOpen = true
  client.send('nonsense\r\n\r\n')
  await client.until(/HTTP\/1\.1 400 /)
  const closed = new Promise((resolve) => client.socket.once('close', resolve))
  const talk = setInterval(() => client.send('more\r\n'), 50)
  t.teardown(() => clearInterval(talk))
  await closed
})

t.test('HTTP/1.0 gets its answer, unchunked, and the connection closes', async (t) => {
  const { text } = await closedAfter(t, `GET /public/x HTTP/1.0\r\n${host}${credential}\r\n`)
  t.match(text, /^HTTP\/1\.1 200 /)
  t.notMatch(text, /transfer-encoding/i)
  t.match(text, /"target":"\/public\/x"/)
})

for (const [what, middle, status] of [
  ['without a credential', `GET /public/2 HTTP/1.1\r\n${host}\r\n`, 401],
  ['without the role', `${get('/admin/2')}\r\n`, 403],
  ['without a route', `${get('/nowhere')}\r\n`, 404],
  ['without a route for its method', `PUT /datasets HTTP/1.1\r\n${host}${credential}\r\n`, 405],
] as const) {
  t.test(`a pipelined connection goes on after a request ${what}`, async (t) => {
    await world.clearRecorder()
    const text = await world.raw(`${get('/public/1')}\r\n${middle}${get('/public/3', close)}\r\n`)
    t.same(statusesOf(text), [200, status, 200])
    t.ok(text.indexOf('"/public/1"') < text.indexOf(`"status":${status}`), 'in order')
    t.ok(text.indexOf(`"status":${status}`) < text.indexOf('"/public/3"'), 'in order')
    const reached = (await world.recorded()).map(({ requestLine }) => requestLine).sort()
    t.same(reached, ['GET /public/1 HTTP/1.1', 'GET /public/3 HTTP/1.1'])
  })
}

for (const [what, middle, status] of [
  ['an ambiguous head', `GET /public/2 HTTP/1.1\r\n${host}${host}${credential}\r\n`, 400],
  ['unreadable bytes', 'nonsense\r\n\r\n', 400],
  ['an unknown method', `BREW /public/2 HTTP/1.1\r\n${host}\r\n`, 501],
  ['an unknown coding', `POST /public/2 HTTP/1.1\r\n${host}Transfer-Encoding: gzip\r\n\r\n`, 501],
] as const) {
  t.test(`a pipelined connection ends with ${what}, after the answers before it`, async (t) => {
    await world.clearRecorder()
    const { text } = await closedAfter(t, `${get('/public/1')}\r\n${middle}${get('/public/3')}\r\n`)
    t.same(statusesOf(text), [200, status])
    t.same(
      (await world.recorded()).map(({ requestLine }) => requestLine),
      ['GET /public/1 HTTP/1.1'],
    )
  })
}

t.test('bytes after a request that closes the connection are not read', async (t) => {
  await world.clearRecorder()
  const { text } = await closedAfter(t, `${get('/public/1', close)}\r\n${get('/public/2')}\r\n`)
  t.equal(statusesOf(text)[0], 200)
  t.notMatch(text, /"\/public\/2"/)
  t.same(
    (await world.recorded()).map(({ requestLine }) => requestLine),
    ['GET /public/1 HTTP/1.1'],
  )
})

t.test('unreadable bytes never stand in the middle of an answer under way', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\nfirst,')
  })
  const gateway = await startTestGateway(t, { routes: [openRoute], upstreams: { platform: { url: upstream.url } } })
  const client = await openRawClient(t, gateway.public)
  client.send(`GET /x HTTP/1.1\r\n${host}\r\n`)
  await client.until(/first,$/)
  client.send('nonsense\r\n\r\n')
  const isRefused = async () => /malformed_requests_total\{[^}]*\} 1/.test(await metrics(gateway.admin))
  for (const socket of upstream.sockets()) socket.write('second')
  t.match(await client.closed(), /\r\n\r\nfirst,secondHTTP\/1\.1 400 /)
  t.ok(await isRefused())
})

const metrics = async (admin: string): Promise<string> => (await fetch(`${admin}/metrics`)).text()

t.test('a CONNECT that is reset at once does not end the process', async (t) => {
  for (let count = 0; count < 20; count++) {
    const client = await openRawClient(t, world.public)
    client.socket.write(`CONNECT h:80 HTTP/1.1\r\n${host}\r\n`, () => client.socket.resetAndDestroy())
    await new Promise((resolve) => client.socket.once('close', resolve))
  }
  t.equal(await statusOf(`${get('/public/x', close)}\r\n`), 200)
})

t.test('a connection that sends nothing, or only a part of a head, is closed in time', async (t) => {
  const gateway = await startTestGateway(t, { routes: [openRoute], settings: { timeouts: { headersMs: 300 } } })
  const silent = await openRawClient(t, gateway.public)
  const partial = await openRawClient(t, gateway.public)
  partial.send('GET /x HTTP/1.1\r\nHo')
  t.match(await partial.closed(), /^HTTP\/1\.1 408 /)
  await silent.closed()
})

t.test('an encoded slash passes byte for byte where the route allows it, and is 400 elsewhere', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => socket.write('HTTP/1.1 204 No Content\r\n\r\n'))
  const objects = { ...openRoute, id: 'objects', match: { path: '/objects/*' }, encodedSlashes: 'allow' }
  const gateway = await startTestGateway(t, {
    routes: [openRoute, objects],
    upstreams: { platform: { url: upstream.url } },
  })
  const ask = async (target: string) => {
    const answer = await callRaw(gateway.public, `GET ${target} HTTP/1.1\r\n${host}${close}\r\n`)
    return statusesOf(answer)[0]
  }
  t.equal(await ask('/objects/a%2Fb%2fc?d=%2F'), 204)
  for (const target of ['/other/a%2Fb', '/objects/a%2F..%2Fb', '/objects/a%252Fb', '/objects%2Fa'])
    t.equal(await ask(target), 400, target)
  t.match(upstream.received(), [/^GET \/objects\/a%2Fb%2fc\?d=%2F HTTP\/1\.1\r\n/])
})

t.test('a target that a backend may take for a path guarded otherwise is 400 and goes nowhere', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => socket.write('HTTP/1.1 204 No Content\r\n\r\n'))
  const guarded = { id: 'guarded', match: { path: '/files/admin' }, surface: 'platform', upstream: 'platform' }
  const gateway = await startTestGateway(t, {
    routes: [openRoute, guarded],
    upstreams: { platform: { url: upstream.url } },
  })
  const ask = async (target: string) => callRaw(gateway.public, `GET ${target} HTTP/1.1\r\n${host}${close}\r\n`)
  t.match(await ask('/files/admin'), /^HTTP\/1\.1 401 /)
  for (const target of ['/files/ADMIN', '/files/admin/', '/files/admin;x', '/files/admin%20', '/files/%2561dmin'])
    t.match(await ask(target), /^HTTP\/1\.1 400 .*"target_misreadable"/s, target)
  t.same(upstream.received(), [])
  t.match(await ask('/Files/Plain/'), /^HTTP\/1\.1 204 /)
})

/** A path with every dot segment resolved, as a careless backend would. */
const resolveDots = (path: string): string => posix.normalize(path.startsWith('/') ? path : `/${path}`)

function decode(text: string): string {
  const bytes = text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return bytes.replace(/\p{Cc}/gu, '')
}

const readings: readonly ((path: string) => string)[] = [
  (path) => path,
  decode,
  (path) => decode(decode(path)),
  (path) => (URL.canParse(path, 'http://h') ? new URL(path, 'http://h').pathname : path),
]
const habits: readonly ((path: string) => string)[] = [
  (path) => path,
  (path) => path.replace(/;[^/]*/g, ''),
  (path) => path.replaceAll('\\', '/'),
  (path) => path.replace(/[;?#].*$/, ''),
]

function readAsBackends(target: string): readonly string[] {
  const path = target.replace(/[?#].*$/s, '')
  return readings.flatMap((read) =>
    habits.flatMap((first) =>
      habits.flatMap((second) => {
        const done = second(first(read(path)))
        return [done, resolveDots(done), done.replace(/\/+/g, '/'), resolveDots(done.replace(/\/+/g, '/'))]
      }),
    ),
  )
}

const isProtected = (target: string): boolean => readAsBackends(target).some((path) => /^\/admin(?:\/|$)/i.test(path))

t.test('the models of careless backends see what they should', async (t) => {
  for (const target of [
    '/admin',
    '/admin/x',
    '//admin/x',
    '/public/../admin/x',
    '/public/..;/admin/x',
    '/public/%2e%2e/admin',
    '/public/%252e%252e/admin',
    '/public/..%5cadmin',
    '/public\\..\\admin',
    '/%61dmin/x',
    '/admin;x/y',
    '/public/..%3b/admin',
  ])
    t.ok(isProtected(target), target)
  for (const target of ['/public/admin', '/x?/admin', '/administrator', '/public/x;/admin'])
    t.notOk(isProtected(target), target)
})

/** Sends each target as a member, who may not use /admin; returns the targets that reached a backend anyway. */
async function reachedBy(targets: readonly string[]): Promise<readonly string[]> {
  await world.clearRecorder()
  const waiting = [...targets]
  const send = async (): Promise<void> => {
    for (let target = waiting.shift(); target !== undefined; target = waiting.shift())
      await callRaw(world.public, `${get(target, close)}\r\n`, 2_000)
  }
  await Promise.all(Array.from({ length: 8 }, send))
  return (await world.recorded()).map(({ requestLine }) => requestLine.split(' ').slice(1, -1).join(' '))
}

testVectors(
  t,
  'paths/bypass-templates.json',
  'no published bypass of a path rule reaches a protected path',
  async (t, vectors) => {
    const targets = vectors.cases.map(({ target }: { target: string }) =>
      target.replaceAll('{PU}', 'ADMIN').replaceAll('{P3}', 'adm').replaceAll('{P4}', 'in').replaceAll('{P}', 'admin'),
    )
    t.ok(targets.some(isProtected), 'the vectors aim at it')
    const reached = await reachedBy(targets)
    t.ok(reached.length > 0, 'harmless ones pass')
    t.same(reached.filter(isProtected), [])
  },
)

testVectors(
  t,
  'paths/normalise-pairs.json',
  'no path that others normalise reaches a protected path',
  async (t, vectors) => {
    const cases: readonly { input: string; normalised: string }[] = vectors.cases
    const targets = cases.flatMap(({ input, normalised }) => {
      const [first = ''] = normalised.split('/').filter((segment) => segment !== '')
      const aimed = first === '' ? input : input.replaceAll(first, 'admin')
      return [input, aimed, `/public${input.startsWith('/') ? '' : '/'}${input}`, `/public/x/..${aimed}`]
    })
    t.ok(targets.some(isProtected), 'the vectors aim at it')
    t.same((await reachedBy(targets)).filter(isProtected), [])
  },
)

testVectors(t, 'paths/normalise-pairs.json', 'a path that others reject is refused', async (t, vectors) => {
  const rejected = vectors.cases.filter(({ normalised }: { normalised: string }) => normalised.startsWith('REJECT'))
  t.ok(rejected.length > 0)
  for (const { input } of rejected)
    t.equal(await statusOf(`${get(`/public${input.startsWith('/') ? '' : '/'}${input}`, close)}\r\n`), 400, input)
})

testVectors(
  t,
  'paths/wpt-targets.json',
  'a browser and a backend of its kind read the path that passed',
  async (t, vectors) => {
    const upstream = await startRawUpstream(t, (socket) => socket.write('HTTP/1.1 204 No Content\r\n\r\n'))
    const gateway = await startTestGateway(t, { routes: [openRoute], upstreams: { platform: { url: upstream.url } } })
    let passed = 0
    for (const { target, whatwg } of vectors.cases as readonly { target: string; whatwg: string }[]) {
      if (whatwg === 'FAILURE') continue // of its base, which a request does not have
      const bytes = Buffer.from(`GET ${target} HTTP/1.1\r\n${host}${close}\r\n`)
      const [status] = statusesOf(await callRaw(gateway.public, bytes, 2_000))
      if (status === 204) {
        passed += 1
        const read = new URL(`http://h${target}`)
        t.equal(`${read.pathname}${read.search}`.split('?')[0], whatwg.split('?')[0], target)
        t.equal(decodeURIComponent(read.pathname), decodeURIComponent(target.split('?')[0] ?? ''), target)
      } else t.ok(status === 400 || (status === 404 && target.split('?')[0] === '/'), `${status} ${target}`)
    }
    t.ok(passed > 20, `${passed} of them pass`)
  },
)
