import fc from 'fast-check'
import t, { type Test } from 'tap'
import { reportProgress } from '../fuzz/report-progress.ts'
import { type FuzzRequest, fuzzRequests, toBytes } from '../fuzz/requests.ts'
import { testVectors } from '../support/vectors.ts'
import { startComparing } from './compare-readings.ts'

type Case = Readonly<{ name: string; packets: readonly Buffer[] }>

/** Gateways that work side by side: most of the time is spent in waiting for the other end. */
const comparers = await Promise.all(Array.from({ length: 4 }, () => startComparing(t)))

/** Gives each of the cases to the gateway and to the reference, and tells how many requests reached an upstream. */
async function compareAll(t: Test, cases: Iterator<Case>): Promise<number> {
  let arrived = 0
  const work = comparers.map(async (compare) => {
    for (let next = cases.next(); !next.done; next = cases.next()) {
      const { name, packets } = next.value
      const comparison = await compare(packets)
      arrived += comparison.arrived
      if (comparison.problems.length === 0) continue
      const text = JSON.stringify(packets.map((packet) => packet.toString('latin1')))
      t.same(comparison.problems, [], `${name}: ${text.slice(0, 4_000)}`)
    }
  })
  await Promise.all(work)
  return arrived
}

type Vector = Readonly<{ id: string; payload_b64: string }>

for (const file of ['desync-guardian', 'gunicorn'])
  testVectors(t, `http/${file}.json`, `${file} is read as node:http reads it`, async (t, { cases }) => {
    const read = (cases as readonly Vector[]).map(({ id, payload_b64 }) => ({
      name: id,
      packets: [Buffer.from(payload_b64, 'base64')],
    }))
    t.ok((await compareAll(t, read.values())) > 5, 'and something did arrive')
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
  'an expectation without a body': 'GET /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n',
  'another expectation': post('Expect: tea\r\nContent-Length: 2\r\n', 'hi'),
  'an empty chunked body': `${post(chunked, '0\r\n\r\n')}${get}`,
  'an empty chunked body of GET': `GET /x HTTP/1.1\r\nHost: h\r\n${chunked}\r\n0\r\n\r\n${get}`,
  'a body without one': post('', ''),
  'a PUT and a DELETE without a body': `PUT /x HTTP/1.1\r\nHost: h\r\n\r\nDELETE /x HTTP/1.1\r\nHost: h\r\n\r\n`,
  'chunks in many packets': [post(chunked, ''), '5\r\nhel', 'lo\r\n', '3;a=b\r\n...\r', '\n0\r\nX-T: t\r\n', '\r\n'],
  'a head in many packets': ['GE', 'T /x HT', 'TP/1.1\r', '\nHo', 'st', ': ', 'h\r\nX-A:', ' b', ' c \r\n', '\r', '\n'],
  'a long chunk extension': post(chunked, `2;${'a'.repeat(20_000)}\r\nhi\r\n0\r\n\r\n`),
  'an upgrade to an unknown protocol': `GET /x HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n${get}`,
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

t.test('requests written by hand are read as node:http reads them', async (t) => {
  const cases = Object.entries(byHand).map(([name, text]) => ({
    name,
    packets: [text].flat().map((packet) => Buffer.from(packet, 'latin1')),
  }))
  t.ok((await compareAll(t, cases.values())) > 20)
})

/** The same bytes, cut anywhere. */
const cut = (bytes: Buffer, places: readonly number[]): readonly Buffer[] => {
  const ends = [...places.map((place) => Math.round(place * bytes.length)), bytes.length].sort((a, b) => a - b)
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end)).filter(({ length }) => length > 0)
}

const request = fuzzRequests([{ name: 'nobody', header: ['x-mark', 'm'], userId: 0 }])
const places = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 3 })

/** Requests of one seed come in portions of this size, each with a seed of its own. */
const portion = 500

/** node:http reads over several spaces in a request line, which the gateway refuses. */
const withoutSpaces = (one: FuzzRequest): FuzzRequest => ({
  ...one,
  method: one.method.trim(),
  target: one.target.replace(/^ +| +$/g, ''),
})

/** Generates `count` requests, one to three a connection, cut anywhere. */
function* generate(count: number, seed: number): Generator<Case> {
  for (let sent = 0, portions = 0; sent < count; portions += 1) {
    const sample = fc.tuple(fc.array(request, { minLength: 1, maxLength: 3 }), places)
    for (const [requests, cuts] of fc.sample(sample, { numRuns: portion, seed: seed + portions })) {
      if (sent >= count) return
      sent += requests.length
      const bytes = requests.map((one, index) => toBytes(withoutSpaces(one), `x${index}`))
      yield { name: `seed ${seed + portions}`, packets: cut(Buffer.concat(bytes), cuts) }
    }
  }
}

/** The number of requests; `CAMPAIGN=1000000` runs as many, and reports every few seconds. */
const campaign = Number(process.env.CAMPAIGN ?? 0)

t.test('generated requests are read as node:http reads them, however they are cut', { timeout: 0 }, async (t) => {
  const count = campaign || 600
  const seed = Number(process.env.SEED ?? (campaign ? Date.now() % 1e9 : 20_261))
  const cases = generate(count, seed)
  const arrived = await compareAll(t, campaign ? reportProgress(cases, `differential, seed ${seed}`) : cases)
  t.ok(arrived > count / 8, `${arrived} of ${count} arrived`)
})
