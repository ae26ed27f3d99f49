import t from 'tap'
import { call } from '../support/client.ts'
import { countHeads, openRawClient, openRoute, startRawUpstream, startTestGateway, until } from '../support/gateway.ts'

const poison = 'HTTP/1.1 200 OK\r\nx-poison: 1\r\ncontent-length: 6\r\n\r\npoison'

/** The bytes that the upstream answers with, and sends afterwards, by the path of the request. */
const says: Readonly<Record<string, readonly string[]>> = {}
const upstream = await startRawUpstream(t, (socket, soFar) => {
  const head = soFar.slice(soFar.lastIndexOf('GET '))
  if (!head.endsWith('\r\n\r\n')) return
  const path = head.split(' ')[1] ?? ''
  const own = `HTTP/1.1 200 OK\r\ncontent-length: ${path.length}\r\n\r\n${path}`
  // Bytes that wait for the next request cannot be told from its answer.
  socket.setNoDelay(true)
  for (const bytes of says[path] ?? [own]) socket.write(Buffer.from(bytes, 'latin1'))
})
const gateway = await startTestGateway(t, {
  routes: [openRoute],
  upstreams: { platform: { url: upstream.url } },
  settings: { timeouts: { firstByteMs: 1_000, idleMs: 1_000 } },
})

/** Others, one after the other and at once, get what they asked for and nothing else. */
async function expectOwnAnswers(what: string): Promise<void> {
  const paths = Array.from({ length: 6 }, (_, index) => `/own/${index}`)
  for (const path of paths) t.equal((await call(gateway.public, { path })).text, path, `${what}: one after the other`)
  const answers = await Promise.all(paths.map((path) => call(gateway.public, { path })))
  t.same(
    answers.map(({ text, headers }) => [text, headers['x-poison']]),
    paths.map((path) => [path, undefined]),
    `${what}: at once`,
  )
}

const ok = 'HTTP/1.1 200 OK\r\n'
const unreadable: Readonly<Record<string, string>> = {
  'both lengths': `${ok}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n${poison}`,
  'both lengths, the other way round': `${ok}transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n${poison}`,
  'two lengths': `${ok}content-length: 2\r\ncontent-length: 80\r\n\r\nok${poison}`,
  'a list of lengths': `${ok}content-length: 2, 80\r\n\r\nok${poison}`,
  'a length with a sign': `${ok}content-length: +2\r\n\r\nok${poison}`,
  'a length in hexadecimal': `${ok}content-length: 0x2\r\n\r\nok${poison}`,
  'an unknown coding': `${ok}transfer-encoding: xchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n${poison}`,
  'chunked twice': `${ok}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n${poison}`,
  'a 101 without a request for it': `HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n${poison}`,
  'a 101 to h2c': `HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n${poison}`,
  'a status of two digits': `HTTP/1.1 20 OK\r\ncontent-length: 2\r\n\r\nok${poison}`,
  'a status of four digits': `HTTP/1.1 2000 OK\r\ncontent-length: 2\r\n\r\nok${poison}`,
  'a status above 599': `HTTP/1.1 888 Odd\r\ncontent-length: 2\r\n\r\nok${poison}`,
  'another protocol': `HTTP/3.7 200 OK\r\ncontent-length: 2\r\n\r\nok${poison}`,
  'no HTTP': `ICY 200 OK\r\n\r\nok${poison}`,
  'a NUL in a header': `${ok}x-own: a\0b\r\ncontent-length: 2\r\n\r\nok${poison}`,
  'a bare CR in a header': `${ok}x-own: a\rx-poison: 1\r\ncontent-length: 2\r\n\r\nok${poison}`,
  'a space in a name': `${ok}content length: 2\r\n\r\nok${poison}`,
  'a head of 256 KiB': `${ok}x-own: ${'x'.repeat(256 * 1024)}\r\ncontent-length: 2\r\n\r\nok${poison}`,
  '10,000 headers': `${ok}${'x-own: words\r\n'.repeat(10_000)}content-length: 2\r\n\r\nok${poison}`,
}

// HTTP request splitting from behind: an upstream's answer has two readings, or more bytes than asked for. It must
// reach only the client that asked, and its connection is not used again.
for (const [what, bytes] of Object.entries(unreadable))
  t.test(`an answer with ${what} is 503, and its connection is given up`, async (t) => {
    const path = `/lie/${Object.keys(unreadable).indexOf(what)}`
    Object.assign(says, { [path]: [bytes] })
    const answer = await call(gateway.public, { path })
    t.equal(answer.status, 503)
    t.match(answer.json(), { error: { code: 'upstream_unavailable' } })
    t.notMatch(answer.rawHeaders.join(), /poison/)
    await expectOwnAnswers(what)
    const asked = upstream.received().filter((bytes) => bytes.includes(`GET ${path} `))
    t.equal(asked.length, 1, 'it was asked once')
    t.equal(
      countHeads(asked[0]?.slice(asked[0].indexOf(`GET ${path} `)) ?? ''),
      1,
      'and nothing more on that connection',
    )
  })

// Node CVE-2026-48931: an unsolicited answer on a kept connection was taken for the next request's.
t.test('bytes behind a whole answer reach no client', async (t) => {
  Object.assign(says, {
    '/at-once': [`${ok}content-length: 2\r\n\r\nok${poison}`],
    '/apart': [`${ok}content-length: 2\r\n\r\nok`, poison],
    '/chunked': [`${ok}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n${poison}`],
    '/no-content': [`HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nok${poison}`],
    '/unchanged': [`HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\n${poison}`],
    '/early': [`HTTP/1.1 103 Early Hints\r\n\r\n${ok}content-length: 2\r\n\r\nok${poison}`],
  })
  for (const path of ['/at-once', '/apart', '/chunked', '/no-content', '/unchanged', '/early']) {
    const answer = await call(gateway.public, { path })
    t.notMatch(answer.text, /poison/, path)
    t.equal(answer.headers['x-poison'], undefined, path)
    await expectOwnAnswers(path)
  }
})

t.test('an answer that comes while a connection waits idle reaches no client', async (t) => {
  const idle = await startRawUpstream(t, (socket, soFar) => {
    const path = soFar.slice(soFar.lastIndexOf('GET ')).split(' ')[1] ?? ''
    socket.write(`${ok}content-length: ${path.length}\r\n\r\n${path}`)
  })
  const behind = await startTestGateway(t, { routes: [openRoute], upstreams: { platform: { url: idle.url } } })
  for (let round = 0; round < 5; round++) {
    t.equal((await call(behind.public, { path: `/first/${round}` })).text, `/first/${round}`)
    for (const socket of idle.sockets()) if (!socket.destroyed) socket.write(poison)
    await until(() => idle.sockets().every(({ destroyed, readableEnded }) => destroyed || readableEnded), 'its end')
    t.equal((await call(behind.public, { path: `/second/${round}` })).text, `/second/${round}`)
  }
})

/** In UTF-8 it is two letters, U+010D and U+010A; written with one byte for each of them, it is CR LF. */
const lineEnd = Buffer.from('\u010d\u010a', 'utf8').toString('latin1')

t.test('an upstream’s header never becomes two lines, nor a second answer', async (t) => {
  Object.assign(says, {
    '/folded': [`${ok}x-own: a\r\n x-poison: 1\r\ncontent-length: 2\r\n\r\nok`],
    '/bare-lf': [`${ok}x-own: a\nx-poison: 1\r\ncontent-length: 2\r\n\r\nok`],
    '/latin1': [`${ok}x-own: ${lineEnd}x-poison: 1${lineEnd}\xe5\r\ncontent-length: 2\r\n\r\nok`],
    '/reason': ['HTTP/1.1 200 \x01\x7f\xff odd\r\ncontent-length: 2\r\n\r\nok'],
    '/head': [`HTTP/1.1 200 OK\r\ncontent-length: 2\r\nset-cookie: a=b\r\nset-cookie: c=d\r\n\r\nok`],
  })
  for (const path of ['/folded', '/bare-lf', '/latin1', '/reason', '/head']) {
    const client = await openRawClient(t, gateway.public)
    client.send(`GET ${path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`)
    const text = await client.closed()
    t.equal(text.match(/HTTP\/1\.1 /g)?.length, 1, path)
    t.match(text, path === '/latin1' ? /^HTTP\/1\.1 200 / : /^HTTP\/1\.1 (?:200|503) /, path)
    if (path === '/latin1') t.ok(text.includes(`x-own: ${lineEnd}x-poison: 1${lineEnd}\xe5\r\n`), 'byte for byte')
    t.notMatch(text.split('\r\n\r\n', 1)[0], /(?:^|[\r\n])x-poison:/i, path)
    t.notMatch(text.split('\r\n\r\n', 1)[0]?.replaceAll('\r\n', ''), /[\r\n]/, `${path}: lines end as lines do`)
  }
  await expectOwnAnswers('headers')
})
