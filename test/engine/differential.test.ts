import fc from 'fast-check'
import t, { type Test } from 'tap'
import { type FuzzRequest, fuzzRequests, toBytes } from '../fuzz/requests.ts'
import { type Outcome, startBothEngines } from '../support/both-engines.ts'
import { testVectors } from '../support/vectors.ts'

type Case = Readonly<{ name: string; packets: readonly Buffer[] }>

/** Pairs of gateways that work side by side: most of the time is waiting for what does not come. */
const pairs = await Promise.all(Array.from({ length: 4 }, () => startBothEngines(t)))

/** Gives both engines each of the cases, and tells how many requests reached an upstream. */
async function compareAll(
  t: Test,
  cases: readonly Case[],
  read: (outcome: Outcome) => Outcome = (outcome) => outcome,
): Promise<number> {
  const waiting = [...cases]
  let arrived = 0
  const work = pairs.map(async (send) => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const { node, wire } = await send(t, next.packets)
      const text = JSON.stringify(next.packets.map((packet) => packet.toString('latin1')))
      t.same(read(wire), read(node), `${next.name}: ${text.slice(0, 2_000)}`)
      arrived += node.arrived.length
    }
  })
  await Promise.all(work)
  return arrived
}

type Vector = Readonly<{ id: string; payload_b64: string }>

for (const file of ['desync-guardian', 'gunicorn'])
  testVectors(t, `http/${file}.json`, `both engines read ${file} alike`, async (t, { cases }) => {
    const read = (cases as readonly Vector[]).map(({ id, payload_b64 }) => ({
      name: id,
      packets: [Buffer.from(payload_b64, 'base64')],
    }))
    t.ok((await compareAll(t, read)) > 5, 'and something did arrive')
  })

const get = 'GET /x HTTP/1.1\r\nHost: h\r\n\r\n'
const post = (lines: string, body: string): string => `POST /x HTTP/1.1\r\nHost: h\r\n${lines}\r\n${body}`
const chunked = 'Transfer-Encoding: chunked\r\n'

const byHand: Readonly<Record<string, string | readonly string[]>> = {
  'a row of requests': get.repeat(5),
  'a broken body in a row': `${get}${post(chunked, 'no size\r\n')}${get}`,
  'a broken body of a refused request in a row': `${get}POST /../x HTTP/1.1\r\nHost: h\r\n${chunked}\r\nno size\r\n`,
  'a refused request in a row': `${get}GET /../x HTTP/1.1\r\nHost: h\r\n\r\n${get}`,
  'nonsense in a row': `${get}nonsense\r\n\r\n${get}`,
  'a request after the last': `${get.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')}${get}`,
  'HTTP/1.0': 'GET /x HTTP/1.0\r\nHost: h\r\n\r\n',
  'HTTP/1.0, kept': `GET /x HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n${get}`,
  'HTTP/1.0 with a body': 'POST /x HTTP/1.0\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi',
  'an expectation': post('Expect: 100-continue\r\nContent-Length: 2\r\n', 'hi'),
  'an expectation of a refused request':
    'POST /../x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n',
  // Behind this answer, which is the last, the first engine forwards what is pipelined, and throws its answer away.
  'an expectation without a body': 'GET /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n',
  'another expectation': post('Expect: tea\r\nContent-Length: 2\r\n', 'hi'),
  'an empty chunked body': `${post(chunked, '0\r\n\r\n')}${get}`,
  'an empty chunked body of GET': `GET /x HTTP/1.1\r\nHost: h\r\n${chunked}\r\n0\r\n\r\n${get}`,
  'a body without one': post('', ''),
  'a PUT and a DELETE without a body': `PUT /x HTTP/1.1\r\nHost: h\r\n\r\nDELETE /x HTTP/1.1\r\nHost: h\r\n\r\n`,
  'chunks in many packets': [post(chunked, ''), '5\r\nhel', 'lo\r\n', '3;a=b\r\n...\r', '\n0\r\nX-T: t\r\n', '\r\n'],
  'a head in many packets': ['GE', 'T /x HT', 'TP/1.1\r', '\nHo', 'st', ': ', 'h\r\nX-A:', ' b', ' c \r\n', '\r', '\n'],
  'a long chunk extension': post(chunked, `2;${'a'.repeat(20_000)}\r\nhi\r\n0\r\n\r\n`),
  'an upgrade to what nobody speaks': `GET /x HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n${get}`,
  'a handshake': `GET /x HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n${get}`,
  'CONNECT after a request': `${get}CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\nx`,
  'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'a long target': `GET /${'x'.repeat(9_000)} HTTP/1.1\r\nHost: h\r\n\r\n`,
  'a target without end': `GET /${'x'.repeat(40_000)}`,
  'long headers': `GET /x HTTP/1.1\r\nHost: h\r\n${'X-Long: y\r\n'.repeat(2_000)}\r\n`,
  'headers without end': `GET /x HTTP/1.1\r\nHost: h\r\n${`X-Long: ${'y'.repeat(1_000)}\r\n`.repeat(40)}`,
  'a thousand lines': `GET /x HTTP/1.1\r\nHost: h\r\n${'a: b\r\n'.repeat(1_000)}\r\n`,
  'spaces around values': 'GET /x HTTP/1.1\r\nHost: h\r\nX-A: \t b  c \t \r\nX-B:\r\nX-C:c\r\n\r\n',
  'bytes beyond ASCII': 'GET /x HTTP/1.1\r\nHost: h\r\nX-A: \xe9\xff\x80\r\n\r\n',
  'lines before a request': `\r\n\r\n${get}\r\n\r\n${get}`,
  'an unfinished head': 'GET /x HTTP/1.1\r\nHo',
  'an unfinished body': post('Content-Length: 9\r\n', 'half'),
  'a large unfinished body': post('Content-Length: 100000\r\n', 'half'),
  'an unfinished chunk': post(chunked, '9\r\nhalf'),
  'two methods alike': `GETX /x HTTP/1.1\r\nHost: h\r\n\r\n${get}`,
  HEAD: `HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n${get}`,
}

t.test('both engines read what was thought of by hand alike', async (t) => {
  const cases = Object.entries(byHand).map(([name, text]) => ({
    name,
    packets: [text].flat().map((packet) => Buffer.from(packet, 'latin1')),
  }))
  t.ok((await compareAll(t, cases)) > 20)
})

/**
 * Which refusal bytes get that are no request, behind a body: the first engine looks for the head at fault behind the
 * last blank line, where the body stands, and may find a method there (501) that nobody sent (400).
 */
const unreadable = (outcome: Outcome): Outcome => ({
  ...outcome,
  answers: outcome.answers.map((answer) =>
    /"(?:method_unknown|headers_malformed)"/.test(answer) ? 'unreadable' : answer,
  ),
})

/** The same bytes, cut anywhere. */
const cut = (bytes: Buffer, places: readonly number[]): readonly Buffer[] => {
  const ends = [...places.map((place) => Math.round(place * bytes.length)), bytes.length].sort((a, b) => a - b)
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end)).filter(({ length }) => length > 0)
}

t.test('both engines answer and forward generated requests alike, however they are cut', async (t) => {
  const request = fuzzRequests([{ name: 'nobody', header: ['x-mark', 'm'], userId: 0 }])
  const places = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 3 })
  const generated = fc.sample(fc.tuple(fc.array(request, { minLength: 1, maxLength: 3 }), places), {
    numRuns: Number(process.env.SALLYPORT_DIFFERENTIAL_RUNS ?? 300),
    seed: Number(process.env.SALLYPORT_DIFFERENTIAL_SEED ?? 20_261),
  })
  // What follows such a request is another matter: see above.
  const mayFollow = ({ lines }: FuzzRequest): boolean => !lines.some((line) => /^expect:/i.test(line))
  // The first engine reads over several spaces in a request line, the second refuses them.
  const withoutSpaces = (one: FuzzRequest): FuzzRequest => ({
    ...one,
    method: one.method.trim(),
    target: one.target.replace(/^ +| +$/g, ''),
  })
  const cases = generated.map(([requests, cuts]) => ({
    name: 'generated',
    packets: cut(
      Buffer.concat(
        requests
          .filter((one, index) => index === requests.length - 1 || mayFollow(one))
          .map((one, index) => toBytes(withoutSpaces(one), `x${index}`)),
      ),
      cuts,
    ),
  }))
  t.ok((await compareAll(t, cases, unreadable)) > 50)
})
