import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { createEngine } from '../../gateway/http/create-engine.ts'
import type { UpstreamRequest } from '../../gateway/http/engine.ts'
import { startRawUpstream, until } from '../support/gateway.ts'

const engine = createEngine()
t.teardown(() => engine.close())

const bodyBytes = 100_000
const body = Buffer.alloc(bodyBytes, 'x')

type Framing = Readonly<{
  lines: string
  encode: (content: Buffer) => readonly Buffer[]
  begun?: string
  last?: string
}>

/** Encodes two chunks. The second comes with the end, and has to wait for a reader that the first has paused. */
const asChunks = (content: Buffer): readonly Buffer[] =>
  [content.subarray(0, -10), content.subarray(-10)].map((part) =>
    Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')]),
  )

const plain = (content: Buffer): readonly Buffer[] => [content]

const framings: Readonly<Record<string, Framing>> = {
  'no framing': { lines: '', encode: plain },
  'a length, on a connection to be closed': {
    lines: `content-length: ${bodyBytes}\r\nconnection: close\r\n`,
    encode: plain,
  },
  'a length, on a connection to be kept': { lines: `content-length: ${bodyBytes}\r\n`, encode: plain },
  chunks: { lines: 'transfer-encoding: chunked\r\n', encode: asChunks, begun: '5\r\nbegun\r\n', last: '0\r\n\r\n' },
}

/** Reads an answer as a slow client does: every chunk pauses the upstream, which goes on when it is told to. */
async function readSlowly(t: Test, answer: (socket: Socket) => void) {
  const upstream = await startRawUpstream(t, answer)
  const request: UpstreamRequest = {
    origin: upstream.url,
    method: 'GET',
    path: '/',
    headers: [],
    body: undefined,
    asksForWebSocket: false,
    bodyLimitBytes: 0,
    timeouts: { connectMs: 1_000, firstByteMs: 1_000, idleMs: 10_000 },
    isFreshConnection: false,
    onCancellable: () => undefined,
  }
  const response = await engine.send(request)
  if ('connection' in response) throw new Error('switched protocols unasked')
  const read = { bytes: 0, end: undefined as string | undefined, upstream, resume: response.resume }
  response.pipe({
    data: (chunk) => {
      read.bytes += chunk.length
      if (read.end !== undefined) read.end = 'bytes behind the end'
      return false
    },
    end: () => {
      read.end = 'complete'
    },
    fail: ({ fault }) => {
      read.end = fault
    },
  })
  return read
}

// undici 7.30 paused its parser, and asserted that it was not paused when the connection then ended or was reset. The
// exception was not caught and ended the process.
for (const [framing, { lines, encode, begun = 'begun', last = '' }] of Object.entries(framings)) {
  const head = `HTTP/1.1 200 OK\r\n${lines}\r\n`

  t.test(`a slow client reads an answer with ${framing} to its end, though the upstream has closed`, async (t) => {
    const read = await readSlowly(t, (socket) => {
      socket.write(head)
      socket.end(Buffer.concat([...encode(body), Buffer.from(last)]))
    })
    await until(() => {
      read.resume()
      return read.end
    }, 'the end of the answer')
    t.match(read, { end: 'complete', bytes: bodyBytes })
  })

  t.test(`an upstream that closes within an answer with ${framing} is noticed though its client is slow`, async (t) => {
    const read = await readSlowly(t, (socket) => {
      socket.write(head)
      socket.end(Buffer.concat(encode(body.subarray(1))))
    })
    await until(() => {
      read.resume()
      return read.end
    }, 'the end of the answer')
    // Without framing every end of the connection ends the answer.
    t.match(read, { end: lines ? 'protocol-error' : 'complete', bytes: bodyBytes - 1 })
  })

  t.test(`an upstream that resets within an answer with ${framing} is noticed though its client is slow`, async (t) => {
    const read = await readSlowly(t, (socket) => socket.write(head + begun))
    await until(() => read.bytes === 5, 'the first bytes')
    for (const socket of read.upstream.sockets()) socket.resetAndDestroy()
    await until(() => read.end, 'the end of the answer')
    t.equal(read.end, 'protocol-error')
  })
}
