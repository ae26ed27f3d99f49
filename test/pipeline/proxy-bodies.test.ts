import { createHash, randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import t from 'tap'
import { type TakeBytes, until } from '../support/gateway.ts'
import {
  answerOf,
  bodyOf,
  type Drive,
  host,
  isWhole,
  latin1,
  namesOf,
  post,
  sayOk,
  startProxy,
  valuesOf,
} from '../support/proxy.ts'
import { leadThrough, startTcpProxy } from '../support/tcp-proxy.ts'

const proxy = await startProxy(t)
const { world, credential } = proxy

const mebibyte = 1024 * 1024
const sha256 = (bytes: string): string => createHash('sha256').update(latin1(bytes)).digest('hex')
const framingOf = (head: string): readonly string[] =>
  namesOf(head).filter((name) => name === 'content-length' || name === 'transfer-encoding')
const unchunk = (body: string): string =>
  body.replace(/[0-9a-f]+\r\n([\s\S]*?)\r\n(?=[0-9a-f]+\r\n)|0\r\n\r\n$/gi, '$1')
const chunked = 'Transfer-Encoding: chunked\r\n'

/** The upstream's connection was given up. */
const isReleased = (socket: Socket | undefined): boolean => socket?.readableEnded === true || socket?.destroyed === true
const untilReleased = ({ sockets }: Drive): Promise<void> =>
  until(() => sockets().length > 0 && sockets().every(isReleased), 'the release of the upstream', 2_000)

/** Sends one more request and resolves to all answers, which show whether the connection is still in step. */
async function goOn({ client }: Drive): Promise<string> {
  client.send(`GET /x/next HTTP/1.1\r\n${host}${credential}Connection: close\r\n\r\n`)
  return client.closed()
}

const statusesOf = (text: string): readonly number[] =>
  [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status))

const megabyte = randomBytes(mebibyte).toString('latin1')
proxy.testCase(
  t,
  'B01: a body with a length arrives as it was, under that length',
  { request: post(`Content-Length: ${mebibyte}\r\n`, megabyte) },
  async (t, drive) => {
    await drive.client.until(/ok$/)
    const [bytes = ''] = drive.received()
    t.same(framingOf(bytes), ['content-length'])
    t.same(valuesOf(bytes, 'content-length'), [String(mebibyte)])
    t.equal(sha256(bodyOf(bytes)), sha256(megabyte))
  },
)

proxy.testCase(
  t,
  'B02: a chunked body arrives as it was, without its extensions, framed once',
  { request: post(chunked, '3;name="value"\r\nabc\r\n4\r\ndefg\r\n1;x\r\nh\r\n0;last\r\n\r\n') },
  async (t, drive) => {
    await drive.client.until(/ok$/)
    const [bytes = ''] = drive.received()
    t.same(framingOf(bytes), ['transfer-encoding'])
    t.equal(unchunk(bodyOf(bytes)), 'abcdefgh')
  },
)

for (const lines of [`Content-Length: 5\r\n${chunked}`, `${chunked}Content-Length: 5\r\n`])
  proxy.testCase(
    t,
    `B04: a length beside chunks, ${lines.startsWith('C') ? 'before' : 'behind'} them, is 400 and the end`,
    { request: post(lines, `0\r\n\r\nGET /x/2 HTTP/1.1\r\n${host}${credential}\r\n`), strangerStatus: 400 },
    async (t, { client, received }) => {
      t.same(statusesOf(await client.closed()), [400])
      t.same(received(), [])
    },
  )

const trailers =
  'X-Sum: 7\r\nHost: evil\r\nAuthorization: Bearer x\r\nX-Organization-Id: 7\r\nX-Gateway-Identity: forged\r\n'
proxy.testCase(
  t,
  'B05: trailers of a request are dropped, and the connection goes on',
  { request: post(`${chunked}Trailer: X-Sum\r\n`, `5\r\nhello\r\n0\r\n${trailers}\r\n`) },
  async (t, drive) => {
    await drive.client.until(/ok$/)
    const [bytes = ''] = drive.received()
    t.notMatch(bytes, /x-sum|trailer|evil|forged|bearer/i)
    t.same(valuesOf(bytes, 'x-organization-id'), [String(world.organizations.acme.id)])
    t.equal(bodyOf(bytes), '5\r\nhello\r\n0\r\n\r\n')
    t.same(statusesOf(await goOn(drive)), [200, 200])
  },
)

for (const trailer of ['Content-Length: 5', 'Transfer-Encoding: chunked', 'no trailer'])
  proxy.testCase(
    t,
    `B05: the trailer "${trailer}" makes no whole request`,
    { request: post(chunked, `5\r\nhello\r\n0\r\n${trailer}\r\n\r\n`) },
    async (t, drive) => {
      t.same(statusesOf(await drive.client.closed()), [400])
      t.notOk(drive.received().some(isWhole))
    },
  )

for (const method of ['GET', 'HEAD', 'DELETE', 'OPTIONS'])
  for (const [how, framing, body] of [
    ['a body', 'Content-Length: 5\r\n', 'hello'],
    ['a chunked body', chunked, '5\r\nhello\r\n0\r\n\r\n'],
  ] as const)
    proxy.testCase(
      t,
      `B06: ${method} keeps ${how}, and does not harm the next request`,
      { request: (lines) => `${method} /x/1 HTTP/1.1\r\n${host}${lines}${framing}\r\n${body}` },
      async (t, drive) => {
        await drive.client.until(/\r\n\r\n/)
        const text = await goOn(drive)
        t.same(statusesOf(text), [200, 200])
        const seen = drive
          .received()
          .join('')
          .split(/(?=(?:GET|HEAD|DELETE|OPTIONS) \/x\/)/)
        t.equal(seen.length, 2)
        const withBody = seen.find((bytes) => bytes.startsWith(`${method} /x/1 `)) ?? ''
        t.equal(framingOf(withBody).length, 1)
        t.equal(unchunk(bodyOf(withBody)), 'hello')
        t.same(framingOf(seen.find((bytes) => bytes.startsWith('GET /x/next ')) ?? ''), [])
      },
    )

for (const framing of ['', 'Content-Length: 0\r\n'])
  proxy.testCase(
    t,
    `B07: a DELETE without a body goes out without framing${framing && ', whatever it says'}`,
    { request: (lines) => `DELETE /x/1 HTTP/1.1\r\n${host}${lines}${framing}\r\n` },
    async (t, { head, client }) => {
      t.same(framingOf(await head()), [])
      t.match(await client.until(/ok$/), /^HTTP\/1\.1 200 /)
    },
  )

for (const expectation of ['100-continue', '100-Continue'])
  proxy.testCase(
    t,
    `B08: an Expect of ${expectation} is answered for an allowed route, once, and not sent on`,
    { request: post(`Expect: ${expectation}\r\nContent-Length: 5\r\n`) },
    async (t, drive) => {
      const { client, received } = drive
      t.equal(await client.until(/\r\n\r\n/), 'HTTP/1.1 100 Continue\r\n\r\n')
      client.send('hello')
      t.same(statusesOf(await client.until(/ok$/)), [100, 200])
      const [bytes = ''] = received()
      t.equal(bodyOf(bytes), 'hello')
      t.same(valuesOf(bytes, 'expect'), [])
      t.same(statusesOf(await goOn(drive)), [100, 200, 200])
    },
  )

proxy.testCase(
  t,
  'B08: a client that does not wait for its 100 is served as well',
  { request: post('Expect: 100-continue\r\nContent-Length: 5\r\n', 'hello') },
  async (t, { client, received }) => {
    t.same(statusesOf(await client.until(/ok$/)), [100, 200])
    t.equal(bodyOf(received()[0] ?? ''), 'hello')
  },
)

for (const [status, target] of [
  [403, '/owners/1'],
  [404, '/nowhere'],
] as const)
  proxy.testCase(
    t,
    `B09: a request with Expect that is ${status} gets that and no 100, and later bytes are not read`,
    {
      request: post('Expect: 100-continue\r\nContent-Length: 50\r\n', `GET /x/2 HTTP/1.1\r\n${host}\r\n`, target),
      ...(status === 404 && { strangerStatus: 404 }),
    },
    async (t, { client, received }) => {
      const text = await client.closed()
      t.same(statusesOf(text), [status])
      t.match(text, /\r\nconnection: close\r\n/i)
      t.same(received(), [])
    },
  )

for (const expectation of ['something-else', '100-continue, x', '200-ok'])
  proxy.testCase(
    t,
    `B10: an Expect of ${expectation} is 417`,
    { request: post(`Expect: ${expectation}\r\nContent-Length: 5\r\n`, 'hello'), strangerStatus: 417 },
    async (t, { client, received }) => {
      t.same(statusesOf(await client.closed()), [417])
      t.same(received(), [])
    },
  )

proxy.testCase(
  t,
  'B12: a body announced larger than its route takes is 413, and nothing of it goes on',
  { request: post('Content-Length: 1001\r\n', 'x'.repeat(1001), '/small/1') },
  async (t, drive) => {
    t.match(await drive.client.until(/body_too_large/), /^HTTP\/1\.1 413 /)
    t.same(drive.received(), [])
    t.same(statusesOf(await goOn(drive)), [413, 200], 'the body that came anyway was dropped')
  },
)

proxy.testCase(
  t,
  'B12: a body that grows larger than its route takes is 413, and no whole request at the upstream',
  { request: post(chunked, `3e8\r\n${'x'.repeat(1000)}\r\n`, '/small/1') },
  async (t, drive) => {
    await until(() => drive.received()[0]?.includes('xxx'), 'the first chunk at the upstream')
    drive.client.send('1\r\nx\r\n0\r\n\r\n')
    t.match(await drive.client.until(/body_too_large/), /^HTTP\/1\.1 413 /)
    await untilReleased(drive)
    t.notOk(isWhole(drive.received()[0] ?? ''))
  },
)

proxy.testCase(
  t,
  'B12: a body just as large as its route takes passes',
  { request: post(chunked, `3e8\r\n${'x'.repeat(1000)}\r\n0\r\n\r\n`, '/small/1') },
  async (t, { client }) => {
    t.match(await client.until(/ok$/), /^HTTP\/1\.1 200 /)
  },
)

for (const [how, framing, half] of [
  ['a length', 'Content-Length: 8\r\n', 'half'],
  ['chunks', chunked, '4\r\nhalf\r\n'],
] as const) {
  for (const leave of ['end', 'resetAndDestroy'] as const)
    proxy.testCase(
      t,
      `B13: a client that leaves by ${leave} within a body with ${how} leaves no whole request behind`,
      { request: post(framing, half) },
      async (t, drive) => {
        await until(() => drive.received()[0]?.includes('half'), 'half a body at the upstream')
        drive.client.socket[leave]()
        await untilReleased(drive)
        t.notOk(isWhole(drive.received()[0] ?? ''))
      },
    )

  proxy.testCase(
    t,
    `B14: a body with ${how} that falls silent is 408 in its route’s time, and releases the upstream`,
    { request: post(framing, half, '/hasty/1') },
    async (t, drive) => {
      t.match(await drive.client.until(/request_timeout/), /^HTTP\/1\.1 408 /)
      await untilReleased(drive)
      t.notOk(isWhole(drive.received()[0] ?? ''))
    },
  )
}

const early: Readonly<Record<string, readonly (string | ((socket: Socket) => void))[]>> = {
  'with a length': [answerOf('early')],
  'with a length, in two packets': ['HTTP/1.1 413 No\r\ncontent-length: 5\r\n\r\n', 'early'],
  'in chunks': ['HTTP/1.1 413 No\r\ntransfer-encoding: chunked\r\n\r\n5\r\nearly\r\n0\r\n\r\n'],
  'in chunks, the last one late': ['HTTP/1.1 413 No\r\ntransfer-encoding: chunked\r\n\r\n5\r\nearly\r\n', '0\r\n\r\n'],
  'that closes by FIN': ['HTTP/1.1 413 No\r\nconnection: close\r\ncontent-length: 5\r\n\r\nearly', (s) => s.end()],
  'that closes by RST': [
    'HTTP/1.1 413 No\r\nconnection: close\r\ncontent-length: 5\r\n\r\nearly',
    (socket) => socket.resetAndDestroy(),
  ],
  'that its FIN delimits': ['HTTP/1.1 413 No\r\nconnection: close\r\n\r\nearly', (s) => s.end()],
}

/** Says these parts, with pauses between them, as soon as the first bytes of a body are here. */
const sayEarly = (parts: readonly (string | ((socket: Socket) => void))[]): TakeBytes => {
  let hasBegun = false
  return (socket, soFar, connection) => {
    if (soFar.startsWith('GET') || soFar.includes('GET /x/next')) return sayOk(socket, soFar, connection)
    if (hasBegun || !soFar.includes('xxx')) return
    hasBegun = true
    parts.forEach((part, index) => {
      setTimeout(() => (typeof part === 'string' ? socket.write(part) : part(socket)), index * 50)
    })
  }
}

for (const [how, parts] of Object.entries(early))
  for (const [framing, lines, begin, end] of [
    ['a length', `Content-Length: ${mebibyte}\r\n`, 'x'.repeat(1000), 'x'.repeat(mebibyte - 1000)],
    ['chunks', chunked, `100000\r\n${'x'.repeat(1000)}`, `${'x'.repeat(mebibyte - 1000)}\r\n0\r\n\r\n`],
  ] as const)
    proxy.testCase(
      t,
      `B15: an answer ${how} before the end of a body with ${framing} arrives, and the connection goes on`,
      { request: post(lines, begin), say: sayEarly(parts) },
      async (t, drive) => {
        await drive.client.until(/early/)
        drive.client.send(end)
        const text = await goOn(drive)
        t.match(text, /^HTTP\/1\.1 (?:413|200) [\s\S]*early[\s\S]*HTTP\/1\.1 200 [\s\S]*ok$/)
        t.equal(statusesOf(text).length, 2)
        for (const bytes of drive.received()) {
          const [upload = '', next] = bytes.split(/(?=GET \/x\/next)/)
          t.ok(next === undefined || upload === '' || isWhole(upload), 'nothing follows half an upload')
        }
      },
    )

const odd = '  { "a" : "\\u0062",\n\t"n": 1.0 }  \n'
proxy.testCase(
  t,
  'B16: a body passes unchanged, whatever its type',
  { request: post(`Content-Type: application/json ; charset=utf-8\r\nContent-Length: ${odd.length}\r\n`, odd) },
  async (t, { client, received }) => {
    await client.until(/ok$/)
    const [bytes = ''] = received()
    t.equal(bodyOf(bytes), odd)
    t.same(valuesOf(bytes, 'content-type'), ['application/json ; charset=utf-8'])
  },
)

proxy.testCase(
  t,
  'B17: of three pipelined requests the forbidden one reaches no upstream, and the answers keep their order',
  {
    request: (lines) =>
      [1, 2, 3]
        .map((number) => `GET /${number === 2 ? 'owners' : 'x'}/${number} HTTP/1.1\r\n${host}${lines}\r\n`)
        .join(''),
    say: (socket, soFar) => {
      // The first one takes longest.
      const say = (): void =>
        void socket.write(answerOf(/\/x\/\d/.exec(soFar.slice(soFar.lastIndexOf('GET ')))?.[0] ?? ''))
      if (soFar.includes('/x/1')) setTimeout(say, 100)
      else say()
    },
  },
  async (t, { client, received }) => {
    const text = await client.until(/\/x\/3$/)
    t.same(statusesOf(text), [200, 403, 200])
    t.match(text, /\/x\/1HTTP\/1\.1 403 /)
    t.equal(
      received()
        .join('')
        .match(/ HTTP\/1\.1\r\n/g)?.length,
      2,
    )
    t.notMatch(received().join(), /owners/)
  },
)

t.test('B18: nothing goes on while the decision is pending', async (t) => {
  const database = await startTcpProxy(t, { port: Number(new URL(world.databaseUrl).port) })
  const waiting = await startProxy(t, {
    world,
    settings: { database: { url: leadThrough(database, world.databaseUrl), queryTimeoutMs: 20_000 } },
  })
  database.freeze()
  waiting.testCase(
    t,
    'however much of the body has arrived',
    { request: post('Content-Length: 100000\r\n', 'x'.repeat(60_000)) },
    async (t, { client, received }) => {
      await new Promise((resolve) => setTimeout(resolve, 400))
      t.same(received(), [])
      t.equal(client.text(), '')
      database.thaw()
      client.send('x'.repeat(40_000))
      t.match(await client.until(/ok$/), /^HTTP\/1\.1 200 /)
      t.equal(bodyOf(received()[0] ?? '').length, 100_000)
    },
  )
})
