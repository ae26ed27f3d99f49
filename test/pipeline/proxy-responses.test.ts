import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { openRawClient, startTestGateway } from '../support/gateway.ts'
import {
  answerOf,
  bodyOf,
  type Drive,
  get,
  host,
  latin1,
  namesOf,
  say,
  startProxy,
  valuesOf,
} from '../support/proxy.ts'
import { oauth } from '../support/world.ts'

const proxy = await startProxy(t)
const { world, credential } = proxy

const ok = 'HTTP/1.1 200 OK\r\n'
const keep =
  (method = 'GET', target = '/x/1') =>
  (lines: string): string =>
    `${method} ${target} HTTP/1.1\r\n${host}${lines}\r\n`

/** Asks again on the same connection, and gives what came since: the answer before was told apart from this one. */
async function goOn({ client }: Drive): Promise<string> {
  const before = client.text().length
  client.send(`GET /nowhere HTTP/1.1\r\n${host}${credential}Connection: close\r\n\r\n`)
  return (await client.closed()).slice(before)
}

/** An answer that passes, byte for byte where it is given, on a connection that then goes on. */
const testPassing = (
  name: string,
  parts: readonly (string | Buffer)[],
  check: (t: Test, text: string) => void,
  method = 'GET',
): void =>
  proxy.testCase(t, name, { request: keep(method), say: say(...parts) }, async (t, drive) => {
    const text = await drive.client.until(/\r\n\r\n/)
    const rest = await goOn(drive)
    t.match(rest, /^[\s\S]*HTTP\/1\.1 404 [\s\S]*"route_not_found"/)
    check(t, text + rest.slice(0, rest.indexOf('HTTP/1.1 404 ')))
    t.match(valuesOf(text, 'date'), [/GMT$/])
  })

/** An answer that cannot be relayed: 503, asked for once, and the connection to the upstream is given up. */
const testUnreadable = (name: string, bytes: string): void =>
  proxy.testCase(t, name, { request: keep(), say: say(bytes) }, async (t, drive) => {
    const text = await drive.client.until(/"requestId"/)
    t.match(text, /^HTTP\/1\.1 503 /)
    t.match(JSON.parse(bodyOf(text)), { success: false, error: { status: 503, code: 'upstream_unavailable' } })
    t.equal(drive.received().length, 1)
    t.match(await goOn(drive), /^HTTP\/1\.1 404 /)
  })

testPassing(
  'C01: a 404 of the upstream passes unchanged',
  ['HTTP/1.1 404 Not Here\r\nX-Own: words\r\ncontent-length: 6\r\n\r\nlost\r\n'],
  (t, text) => {
    t.match(text, /^HTTP\/1\.1 404 Not Here\r\nX-Own: words\r\n/)
    t.equal(bodyOf(text), 'lost\r\n')
  },
)

const bodiless: Readonly<Record<string, string>> = {
  '204': 'HTTP/1.1 204 No Content\r\nx-own: 1\r\n\r\n',
  '204 with the length 0': 'HTTP/1.1 204 No Content\r\nx-own: 1\r\ncontent-length: 0\r\n\r\n',
  '204 with a length': 'HTTP/1.1 204 No Content\r\nx-own: 1\r\ncontent-length: 5\r\n\r\n',
  '204 with a body': 'HTTP/1.1 204 No Content\r\nx-own: 1\r\ncontent-length: 5\r\n\r\nhello',
  '204 in chunks': 'HTTP/1.1 204 No Content\r\nx-own: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
  '304': 'HTTP/1.1 304 Not Modified\r\nx-own: 1\r\n\r\n',
  '304 with a length': 'HTTP/1.1 304 Not Modified\r\nx-own: 1\r\ncontent-length: 100\r\n\r\n',
  '304 in chunks': 'HTTP/1.1 304 Not Modified\r\nx-own: 1\r\ntransfer-encoding: chunked\r\n\r\n',
}
for (const [what, bytes] of Object.entries(bodiless))
  testPassing(`C02: a ${what} passes without a body`, [bytes], (t, text) => {
    t.match(text, new RegExp(`^${bytes.split('\r\n', 1)[0]}\r\n`))
    t.same(valuesOf(text, 'x-own'), ['1'])
    t.equal(bodyOf(text), '')
    // RFC 9110 8.6: never on 204. On 304 it is the length of the body that is not sent.
    t.same(valuesOf(text, 'content-length'), what === '304 with a length' ? ['100'] : [])
    t.same(valuesOf(text, 'transfer-encoding'), [])
  })

for (const [what, bytes] of [
  ['a length', `${ok}content-length: 100\r\n\r\n`],
  ['chunks', `${ok}transfer-encoding: chunked\r\n\r\n`],
  ['a body all the same', `${ok}content-length: 5\r\n\r\nhello`],
] as const)
  testPassing(
    `C03: the answer to HEAD with ${what} keeps its head, and has no body`,
    [bytes],
    (t, text) => {
      t.same(
        valuesOf(text, 'content-length'),
        [...bytes.matchAll(/content-length: (\d+)/g)].map(([, length]) => length),
      )
      t.equal(bodyOf(text), '')
    },
    'HEAD',
  )

for (const interim of ['103 Early Hints\r\nlink: </s.css>', '102 Processing', '199 Odd\r\ncontent-length: 5'])
  testPassing(
    `C04: ${interim.slice(0, 3)} is not the answer`,
    [`HTTP/1.1 ${interim}\r\n\r\n`, answerOf('ok')],
    (t, text) => {
      t.match(text, /^HTTP\/1\.1 200 OK\r\n/)
      t.notMatch(text, /HTTP\/1\.1 1|link/)
      t.equal(bodyOf(text), 'ok')
    },
  )

const switching = 'HTTP/1.1 101 Switching Protocols\r\n'
testUnreadable('C05: an unsolicited 101 is 503', `${switching}\r\n`)
testUnreadable(
  'C05: a 101 to another protocol is 503, and later bytes answer no request',
  `${switching}connection: upgrade\r\nupgrade: websocket\r\n\r\n${answerOf('smuggled')}`,
)

const cuts: readonly (readonly [how: string, begin: string, end: 'end' | 'resetAndDestroy'])[] = [
  ['with a length by FIN', `${ok}content-length: 100\r\n\r\npart`, 'end'],
  ['with a length by RST', `${ok}content-length: 100\r\n\r\npart`, 'resetAndDestroy'],
  ['in chunks by FIN', `${ok}transfer-encoding: chunked\r\n\r\n4\r\npart\r\n`, 'end'],
  ['in chunks by RST', `${ok}transfer-encoding: chunked\r\n\r\n4\r\npart\r\n`, 'resetAndDestroy'],
  ['without framing by RST', `${ok}\r\npart`, 'resetAndDestroy'],
]
for (const [how, begin, end] of cuts)
  proxy.testCase(
    t,
    `C08: an answer that is cut ${how} is never a whole one`,
    { request: keep(), say: say(begin) },
    async (t, { client, sockets }) => {
      await client.until(/part/)
      for (const socket of sockets()) socket[end]()
      const text = await client.closed()
      t.match(text, /^HTTP\/1\.1 200 /)
      t.notMatch(text, /0\r\n\r\n$|HTTP\/1\.1 [45]/)
    },
  )

testUnreadable(
  'C09: a length beside chunks is 503',
  `${ok}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n`,
)
testUnreadable(
  'C09: chunks beside a length are 503',
  `${ok}transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\nab\r\n0\r\n\r\n`,
)

for (const [how, parts] of [
  ['in its packet', [answerOf('ok') + answerOf('poison')]],
  ['in the next packet', [answerOf('ok'), answerOf('poison')]],
  ['behind chunks', [`${ok}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n${answerOf('poison')}`]],
] as const)
  proxy.testCase(
    t,
    `C10: bytes of an upstream beyond its answer, ${how}, reach no client`,
    { request: get(), say: say(...parts) },
    async (t, { client }) => {
      const texts = [await client.closed()]
      for (let count = 0; count < 3; count++) {
        const other = await openRawClient(t, proxy.gateway.public)
        other.send(get()(credential))
        texts.push(await other.closed())
      }
      for (const text of texts) {
        t.match(text, /^HTTP\/1\.1 200 OK\r\n[\s\S]*ok(?:\r\n0\r\n\r\n)?$/)
        t.notMatch(text, /poison/)
      }
    },
  )

const two = 'content-length: 2\r\n\r\nab'
const unreadable: Readonly<Record<string, string>> = {
  'no HTTP at all': 'SSH-2.0-OpenSSH\r\n\r\n',
  'of another protocol': `ICY 200 OK\r\n${two}`,
  'of a version that is none': `HTTP/1.2 200 OK\r\n${two}`,
  'of a version in small letters': `http/1.1 200 OK\r\n${two}`,
  'a status of two digits': `HTTP/1.1 20 OK\r\n${two}`,
  'a status of four digits': `HTTP/1.1 2000 OK\r\n${two}`,
  'a status that is no number': `HTTP/1.1 OK 200\r\n${two}`,
  'the status 000': `HTTP/1.1 000 Odd\r\n${two}`,
  'the status 099': `HTTP/1.1 099 Odd\r\n${two}`,
  'the status 600': `HTTP/1.1 600 Odd\r\n${two}`,
  'the status 888': `HTTP/1.1 888 Odd\r\n${two}`,
  'the status 999': `HTTP/1.1 999 Odd\r\n${two}`,
  'a CR in its reason': `HTTP/1.1 200 O\rK\r\n${two}`,
  'bare LF': `HTTP/1.1 200 OK\n${two.replaceAll('\r', '')}`,
  'a bare LF behind a line': `${ok}x-a: b\nx-c: d\r\n${two}`,
  'a bare CR in a value': `${ok}x-a: b\rc\r\n${two}`,
  'a NUL in a value': `${ok}x-a: b\0c\r\n${two}`,
  'a control byte in a value': `${ok}x-a: b\x01c\r\n${two}`,
  'a space in a name': `${ok}x a: b\r\n${two}`,
  'a name beyond ASCII': `${ok}x\xe9: b\r\n${two}`,
  'an empty name': `${ok}: b\r\n${two}`,
  'a line without a colon': `${ok}xa\r\n${two}`,
  'a folded line': `${ok}x-a: b\r\n c\r\n${two}`,
  'a coding beside chunks': `${ok}transfer-encoding: gzip, chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n`,
  'a coding behind chunks': `${ok}transfer-encoding: chunked, gzip\r\n\r\n2\r\nab\r\n0\r\n\r\n`,
  'an unknown coding': `${ok}transfer-encoding: xchunked\r\nconnection: close\r\n\r\nab`,
  'no coding': `${ok}transfer-encoding:\r\n${two}`,
  'chunked twice': `${ok}transfer-encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n`,
  'chunked twice in one line': `${ok}transfer-encoding: chunked, chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n`,
}
for (const [what, bytes] of Object.entries(unreadable)) testUnreadable(`C11: an answer that is ${what} is 503`, bytes)

testUnreadable('C12: a head of 256 KiB is 503', `${ok}x-long: ${'x'.repeat(256 * 1024)}\r\n${two}`)
testUnreadable('C12: a head of 256 KiB in short lines is 503', `${ok}${'x-line: 12345678\r\n'.repeat(15_000)}${two}`)
testPassing('C12: a head of 60 KiB passes', [`${ok}x-long: ${'x'.repeat(60 * 1024)}\r\n${two}`], (t, text) => {
  t.equal(valuesOf(text, 'x-long')[0]?.length, 60 * 1024)
})

for (const [what, url] of [
  ['refused', 'http://127.0.0.1:1'],
  ['unknown by name', 'http://no-such-host.invalid'],
] as const)
  t.test(`C13: an upstream that is ${what} is 503 in the shape of its surface`, async (t) => {
    const names = ['platform', 'agents', 'files', 'graphql', 'data']
    const upstreams = Object.fromEntries(names.map((name) => [name, { url }]))
    const { public: origin } = await startTestGateway(t, { world, upstreams })
    const headers = oauth(world.users.member)
    const error = { status: 503, code: 'upstream_unavailable' }
    for (const [path, shape] of [
      ['/datasets', { success: false, message: String, error }],
      ['/v1/files', { success: false, message: String, error }],
      ['/data/rows', { detail: String }],
    ] as const) {
      t.equal((await call(origin, { path })).status, 401)
      const answer = await call(origin, { path, headers })
      t.equal(answer.status, 503)
      t.match(answer.json(), shape)
    }
    const model = await call(origin, { method: 'POST', path: '/agent/1/responses', headers })
    t.match(model.json(), { error: { type: 'server_error', code: 'upstream_unavailable' } })
    const graphql = await call(origin, { method: 'POST', path: '/graphql', headers })
    t.match(graphql.json(), { data: null, errors: [{ extensions: { status: 503 } }] })
  })

for (const [what, target, shape] of [
  ['an ordinary one', '/hasty/1', { success: false, error: { status: 503, code: 'upstream_timeout' } }],
  ['one of the model API', '/agent/1/responses', { error: { type: 'server_error', code: 'upstream_timeout' } }],
] as const)
  proxy.testCase(
    t,
    `C14: an upstream that never answers is 503 in its route’s time, for ${what}`,
    { request: keep('POST', target), say: () => {} },
    async (t, { client, received }) => {
      const text = await client.until(/upstream_timeout/)
      t.match(text, /^HTTP\/1\.1 503 /)
      t.match(JSON.parse(bodyOf(text)), shape)
      t.equal(received().length, 1, 'it is asked once')
    },
  )

proxy.testCase(
  t,
  'C15: an answer that falls silent is cut in its route’s time',
  { request: keep('GET', '/hasty/1'), say: say(`${ok}content-length: 100\r\n\r\npart`) },
  async (t, { client }) => {
    t.match(await client.closed(), /^HTTP\/1\.1 200 [\s\S]*\r\n\r\npart$/)
  },
)

testPassing(
  'C16: a 429 keeps its Retry-After and body',
  ['HTTP/1.1 429 Slow Down\r\nRetry-After: 17\r\ncontent-length: 2\r\n\r\n{}'],
  (t, text) => {
    t.match(text, /^HTTP\/1\.1 429 Slow Down\r\nRetry-After: 17\r\n/)
    t.equal(bodyOf(text), '{}')
  },
)

for (const status of [301, 302, 307, 308])
  proxy.testCase(
    t,
    `C17 A14: a ${status} to another host is the client’s to follow`,
    {
      request: get(),
      say: say(
        `HTTP/1.1 ${status} Elsewhere\r\nLocation: http://elsewhere.example:81/x?y#z\r\ncontent-length: 0\r\n\r\n`,
      ),
    },
    async (t, { client, received }) => {
      const text = await client.closed()
      t.match(text, new RegExp(`^HTTP/1.1 ${status} Elsewhere\r\n`))
      t.same(valuesOf(text, 'location'), ['http://elsewhere.example:81/x?y#z'])
      t.equal(received().length, 1)
    },
  )

const zipped = gzipSync('{"a":1}'.repeat(100))
testPassing(
  'C18: coded content keeps its bytes and length',
  [`${ok}Content-Encoding: gzip\r\ncontent-length: ${zipped.length}\r\n\r\n`, zipped],
  (t, text) => {
    t.same(valuesOf(text, 'content-encoding'), ['gzip'])
    t.same(valuesOf(text, 'content-length'), [String(zipped.length)])
    t.ok(latin1(bodyOf(text)).equals(zipped))
  },
)

for (const [what, lines, trailers] of [
  ['announced', 'Trailer: x-sum\r\n', 'x-sum: 7\r\n'],
  ['not announced', '', 'x-sum: 7\r\nset-cookie: a=b\r\ntransfer-encoding: chunked\r\n'],
  ['announced and missing', 'Trailer: x-sum\r\n', ''],
] as const)
  testPassing(
    `C19: trailers that are ${what} are dropped, and the answer is whole`,
    [`${ok}${lines}transfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n${trailers}\r\n`],
    (t, text) => {
      t.notMatch(text, /x-sum|trailer|set-cookie/i)
      t.equal(bodyOf(text), '2\r\nab\r\n0\r\n\r\n')
    },
  )

testPassing('C19: a lone Trailer goes nowhere', [answerOf('ok', 'Trailer: z\r\n')], (t, text) => {
  t.same(valuesOf(text, 'trailer'), [])
  t.equal(bodyOf(text), 'ok')
})

proxy.testCase(
  t,
  'C21: a 503 with Retry-After passes, and is not tried again',
  { request: get(), say: say('HTTP/1.1 503 Busy\r\nRetry-After: 3\r\ncontent-length: 4\r\n\r\nbusy') },
  async (t, { client, received }) => {
    t.match(await client.closed(), /^HTTP\/1\.1 503 Busy\r\nRetry-After: 3\r\n[\s\S]*\r\n\r\nbusy$/)
    t.equal(
      received()
        .join('')
        .match(/ HTTP\/1\.1\r\n/g)?.length,
      1,
    )
  },
)

for (const length of ['2\r\ncontent-length: 3', '2\r\ncontent-length: 2', '2, 2', '+2', '-2', '0x2', '2 2', 'two', ''])
  testUnreadable(`C22: the length ${JSON.stringify(length)} is 503`, `${ok}content-length: ${length}\r\n\r\nab`)

for (const [what, lines] of [
  ['missing', ''],
  ['there', 'Date: Tue, 01 Jan 2030 00:00:00 GMT\r\n'],
] as const)
  testPassing(`C23: a Date that is ${what} is there once`, [answerOf('ok', lines)], (t, text) => {
    t.equal(namesOf(text).filter((name) => name === 'date').length, 1)
    if (lines) t.same(valuesOf(text, 'date'), ['Tue, 01 Jan 2030 00:00:00 GMT'])
  })
