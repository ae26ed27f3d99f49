// In a process of its own: it measures processor time, of code that was not compiled before.
import t from 'tap'
import { MessageParser } from '../../gateway/http/parser/message-parser.ts'
import { openRawClient, openRoute, startTestGateway } from '../support/gateway.ts'
import { startParsingBackend } from '../support/parsed-requests.ts'

/** The most that one read of a socket may hold. */
const packetBytes = 80_000

/** The largest cost of any text, as a multiple of that of a well-formed head of as many bytes. */
const mostTimes = 10

const fill = (unit: string): string => unit.repeat(Math.floor(packetBytes / unit.length))

const units = ['\r', '\n', '\r\n', '\n\r', '\r\r\n', ' ', 'a ', ' a', '\t', '\r ', ' \r', 'GET ', 'GET / ', 'a', '\0']

const hostile = units.flatMap((unit) => [
  `${fill(unit)}GET  / HTTP/1.1\r\nHost: h\r\n\r\n`,
  `GET ${fill(unit)}HTTP/1.1\r\nHost: h\r\n\r\n`,
  `GET  /${fill(unit)} HTTP/1.1\r\nHost: h\r\n\r\n`,
  `GET / HTTP/1.1${fill(unit)}\r\nHost: h\r\n\r\n`,
])

/** The median time of seven readings, each by a parser of its own. */
function measure(text: string): number {
  const bytes = Buffer.from(text, 'latin1')
  const times = Array.from({ length: 7 }, () => {
    const parser = new MessageParser('request', 32 * 1024)
    const before = process.cpuUsage()
    parser.execute(bytes)
    const { user, system } = process.cpuUsage(before)
    parser.free()
    return user + system
  })
  return times.sort((a, b) => a - b)[3] ?? 0
}

t.test('no first line costs more than ten times what a head of its length costs', async (t) => {
  const head = `GET / HTTP/1.1\r\nHost: h\r\n${'X-Some: value\r\n'.repeat(packetBytes / 15)}\r\n`
  measure(head)
  // At least half a millisecond, which a clock and a collection may take by themselves.
  const most = mostTimes * Math.max(measure(head), 50)
  for (const text of hostile) {
    const microseconds = measure(text)
    t.ok(microseconds <= most, `${JSON.stringify(text.slice(0, 12))}…: ${microseconds} µs of ${most}`)
  }
})

const skipped = ['', '\r\n', '\n', '\r\n\r\n', '\n\n', '\r\r', '\r\n\n']
const refused = ['\r\n\r\n\r\n', '\n\n\n', '\r\r\r', '\r\n\r\n\n', '\n\r\n\r', '\r'.repeat(200)]

/** The mistake in a request whose bytes come one at a time, if there is one. */
function readByteByByte(text: string): string | undefined {
  const parser = new MessageParser('request', 32 * 1024)
  let code: string | undefined
  for (const byte of Buffer.from(text, 'latin1')) code ??= parser.execute(Buffer.of(byte))?.code
  parser.free()
  return code
}

t.test('before a request at most two line ends are skipped', async (t) => {
  const backend = await startParsingBackend(t)
  const gateway = await startTestGateway(t, { routes: [openRoute], upstreams: { platform: { url: backend.url } } })
  const get = 'GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n'
  const answer = async (bytes: string): Promise<string> => {
    const client = await openRawClient(t, gateway.public)
    client.send(bytes)
    return (await client.closed()).slice(0, 12)
  }
  for (const before of skipped) {
    t.equal(await answer(before + get), 'HTTP/1.1 200', JSON.stringify(before))
    t.equal(readByteByByte(before + get), undefined, 'byte by byte')
  }
  for (const before of refused) {
    t.equal(await answer(before + get), 'HTTP/1.1 400', JSON.stringify(before.slice(0, 8)))
    t.equal(await answer(before), 'HTTP/1.1 400', 'without a request')
    t.equal(readByteByByte(before + get), 'HPE_INVALID_CONSTANT', 'byte by byte')
  }
})

t.test('between two requests at most two line ends are skipped', async (t) => {
  const backend = await startParsingBackend(t)
  const gateway = await startTestGateway(t, { routes: [openRoute], upstreams: { platform: { url: backend.url } } })
  const get = (connection: string): string => `GET /x HTTP/1.1\r\nHost: h\r\nConnection: ${connection}\r\n\r\n`
  for (const [between, second] of [
    ['\r\n\r\n', '200'],
    ['\r\n\r\n\r\n', '400'],
  ] as const) {
    const client = await openRawClient(t, gateway.public)
    client.send(`${get('keep-alive')}${between}${get('close')}`)
    await client.closed()
    t.same(
      [...client.text().matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => status),
      ['200', second],
    )
  }
})
