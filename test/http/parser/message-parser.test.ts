import fc from 'fast-check'
import t, { type Test } from 'tap'
import { MessageParser, readHeaderName } from '../../../gateway/http/parser/message-parser.ts'

/** Everything that a parser makes of these packets, one message after the other. */
function readAll(type: 'request' | 'response', packets: readonly string[], limitBytes = 32 * 1024) {
  const parser = new MessageParser(type, limitBytes)
  const heads: unknown[] = []
  let body = ''
  for (const packet of packets) {
    let rest = Buffer.from(packet, 'latin1')
    while (rest.length > 0) {
      const fault = parser.execute(rest)
      const head = parser.takeHead()
      if (head) heads.push(head)
      body += Buffer.concat(parser.takeBody()).toString('latin1')
      if (fault) return { heads, body, fault: fault.code }
      rest = rest.subarray(parser.consumedBytes)
      if (parser.isComplete) parser.next()
    }
  }
  parser.free()
  return { heads, body, fault: undefined }
}

const row =
  '\r\nPOST /a?b HTTP/1.1\r\nHost: h\r\nX-Two:  two words \t\r\nX-None:\r\nTransfer-Encoding: chunked\r\n\r\n' +
  '5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nX-Trailer: t\r\n\r\nGET /c HTTP/1.0\r\nConnection: close\r\n\r\n'

const expected = {
  heads: [
    {
      method: 'POST',
      firstLine: '/a?b',
      version: '1.1',
      headers: ['Host', 'h', 'X-Two', 'two words', 'X-None', '', 'Transfer-Encoding', 'chunked'],
      isUpgrade: false,
      isKeptAlive: true,
    },
    { method: 'GET', firstLine: '/c', version: '1.0', headers: ['Connection', 'close'], isKeptAlive: false },
  ],
  body: 'hello!',
  fault: undefined,
}

t.test('messages are read alike, wherever their bytes are cut', async (t) => {
  for (let at = 0; at <= row.length; at++)
    t.hasStrict(readAll('request', [row.slice(0, at), row.slice(at)]), expected, `${at}`)
  t.hasStrict(readAll('request', [...row]), expected, 'byte by byte')
})

t.test('a value is read alike, wherever in what arrives it stands', async (t) => {
  for (const before of [0, 10, 4_030, 4_040, 4_050, 4_060, 4_070, 4_080, 4_090, 4_100, 9_000]) {
    const filler = 'f'.repeat(before)
    const packet = `GET /p HTTP/1.1\r\nFiller: ${filler}\r\nHost: a-name-of-some-length.example\r\nX-Last: \xe9 \r\n\r\n`
    const headers = ['Filler', filler, 'Host', 'a-name-of-some-length.example', 'X-Last', '\xe9']
    const first = { firstLine: '/p', headers }
    t.hasStrict(readAll('request', [packet + packet]), { heads: [first, first], fault: undefined }, `${before}`)
  }
})

t.test('more than a buffer of bytes is read as one message', async (t) => {
  const size = 300_000
  const { body, fault } = readAll('request', [
    `PUT / HTTP/1.1\r\nContent-Length: ${size}\r\n\r\n${'x'.repeat(size)}GET / HTTP/1.1\r\n\r\n`,
  ])
  t.same({ length: body.length, fault }, { length: size, fault: undefined })
})

function testFaults(
  t: Test,
  type: 'request' | 'response',
  cases: Readonly<Record<string, readonly [string, string]>>,
): void {
  for (const [name, [bytes, code]] of Object.entries(cases)) t.equal(readAll(type, [bytes]).fault, code, name)
}

t.test('a message with any mistake is refused', async (t) => {
  const post = 'POST / HTTP/1.1\r\nHost: h\r\n'
  testFaults(t, 'request', {
    'two lengths': [`${post}Content-Length: 1\r\nContent-Length: 1\r\n\r\n`, 'HPE_UNEXPECTED_CONTENT_LENGTH'],
    'a length beside chunks': [
      `${post}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
      'HPE_INVALID_TRANSFER_ENCODING',
    ],
    'another coding': [`${post}Transfer-Encoding: gzip\r\n\r\n`, 'HPE_INVALID_TRANSFER_ENCODING'],
    'a bare line feed': ['GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n', 'HPE_CR_EXPECTED'],
    'a folded line': ['GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n', 'HPE_INVALID_HEADER_TOKEN'],
    'a space before the colon': ['GET / HTTP/1.1\r\nA : b\r\n\r\n', 'HPE_INVALID_HEADER_TOKEN'],
    'a chunk without its end': [`${post}Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n`, 'HPE_STRICT'],
    'a size that is none': [`${post}Transfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n`, 'HPE_INVALID_CHUNK_SIZE'],
  })
  testFaults(t, 'response', {
    'both lengths': [
      'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
      'HPE_INVALID_TRANSFER_ENCODING',
    ],
    'another protocol': ['HTTPS/1.1 200 OK\r\n\r\n', 'HPE_INVALID_CONSTANT'],
    'a status that is none': ['HTTP/1.1 20 OK\r\n\r\n', 'HPE_INVALID_STATUS'],
  })
})

t.test('one space stands between the words of a request line', async (t) => {
  const rest = 'Host: h\r\nX: a  b\r\n\r\n'
  const lines = ['GET  /a HTTP/1.1', 'GET /a  HTTP/1.1', 'GET   /a   HTTP/1.1', 'GET /a  HTTP/1.0']
  for (const line of lines) {
    const request = `${line}\r\n${line.endsWith('0') ? '\r\n' : rest}`
    for (let at = 0; at < request.length; at++)
      t.match(
        readAll('request', [request.slice(0, at), request.slice(at)]),
        { heads: [], fault: /^HPE_/ },
        `${line} ${at}`,
      )
    t.match(readAll('request', [...request]), { heads: [], fault: /^HPE_/ }, `${line}, byte by byte`)
    t.match(readAll('request', [`GET /b HTTP/1.1\r\n${rest}${request}`]), { fault: /^HPE_/ }, `${line}, behind another`)
  }
  const sound = `GET /a HTTP/1.0\r\n\r\nPOST /b HTTP/1.1\r\nContent-Length: 4\r\n\r\na  b${'GET /c HTTP/1.1\r\n'}${rest}`
  for (const packets of [[sound], [...sound]]) {
    const { heads, fault } = readAll('request', packets)
    t.equal(fault, undefined)
    t.match(heads, [{ firstLine: '/a' }, { firstLine: '/b' }, { firstLine: '/c' }])
  }
  t.match(readAll('response', ['HTTP/1.1 200  fine  so\r\n\r\n']), { fault: undefined }, 'a reason may have several')
})

t.test('an interim answer has no body, whatever it says, wherever its bytes are cut', async (t) => {
  const row = 'HTTP/1.1 199 Odd\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
  const wanted = { heads: [{ status: 199 }, { status: 200 }], body: 'ok', fault: undefined }
  for (let at = 0; at < row.length; at++)
    t.match(readAll('response', [row.slice(0, at), row.slice(at)]), wanted, `${at}`)
})

t.test('a head and the framing of a body are bounded', async (t) => {
  const long = 'y'.repeat(1_000)
  testFaults(t, 'request', {
    'a target': [`GET /${long.repeat(40)}`, 'HPE_TARGET_OVERFLOW'],
    'a target and many lines': [
      `GET /${long.repeat(20)} HTTP/1.1\r\n${`A: ${long}\r\n`.repeat(20)}`,
      'HPE_TARGET_OVERFLOW',
    ],
    'many lines': [`GET / HTTP/1.1\r\n${`A: ${long}\r\n`.repeat(40)}`, 'HPE_HEADER_OVERFLOW'],
    'spaces, of which no callback tells': [`GET / HTTP/1.1\r\nA:${' '.repeat(70_000)}`, 'HPE_HEADER_OVERFLOW'],
    'an extension': [
      `POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;${long.repeat(20)}\r\nx\r\n`,
      'HPE_CHUNK_EXTENSIONS_OVERFLOW',
    ],
    trailers: [
      `POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n${`A: ${long}\r\n`.repeat(20)}`,
      'HPE_CHUNK_EXTENSIONS_OVERFLOW',
    ],
    'whole trailers': [
      `POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n${`A: ${long}\r\n`.repeat(20)}\r\n`,
      'HPE_CHUNK_EXTENSIONS_OVERFLOW',
    ],
    'an extension of the last chunk': [
      `POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0;${long.repeat(20)}\r\n\r\n`,
      'HPE_CHUNK_EXTENSIONS_OVERFLOW',
    ],
    'empty lines before a request': ['\r\n'.repeat(20_000), 'HPE_INVALID_CONSTANT'],
  })
})

t.test('a body of tiny chunks is held in few pieces', async (t) => {
  const parser = new MessageParser('request', 32 * 1024)
  parser.execute(Buffer.from(`POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(1_000)}`))
  t.same(
    parser.takeBody().map(({ length }) => length),
    [1_000],
  )
  parser.free()
})

t.test('an answer without a length ends with its connection, one with a length only where it says', async (t) => {
  for (const [lines, isWhole] of [
    ['', true],
    ['Content-Length: 9\r\n', false],
  ] as const) {
    const parser = new MessageParser('response', 32 * 1024)
    parser.execute(Buffer.from(`HTTP/1.1 200 OK\r\n${lines}\r\nhello`))
    t.equal(parser.finish() && parser.isComplete, isWhole, lines)
    parser.free()
  }
})

t.test('a name is what its bytes say, whichever names were read before', (t) => {
  const name = fc.string({ unit: fc.constantFrom('a', 'b', 'A', '-', '\xe9'), minLength: 1, maxLength: 40 })
  fc.assert(
    fc.property(fc.array(name, { minLength: 1, maxLength: 40 }), fc.string({ maxLength: 5 }), (names, before) => {
      for (const text of [...names, ...names]) {
        const bytes = Buffer.from(before + text + before, 'latin1')
        if (readHeaderName(bytes, before.length, before.length + text.length) !== text) return false
      }
      return true
    }),
    { numRuns: 2_000 },
  )
  t.end()
})
