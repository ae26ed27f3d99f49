import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import type { JsonValue } from '../support/client.ts'
import {
  chatChunk,
  completedEvent,
  createdEvent,
  cutAtRandom,
  deltaEvent,
  drawNumbers,
  parseEvents,
} from '../support/event-streams.ts'
import {
  chatPath,
  chunkedHead,
  lastChunk,
  responsesPath,
  startStreamPair,
  streamHead,
  toChunk,
} from '../support/streams.ts'
import { testVectors } from '../support/vectors.ts'

const { open } = await startStreamPair(t)

/** Does this for each of them, a few at a time. */
async function forEach<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const waiting = [...items]
  const take = async (): Promise<void> => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: 16 }, take))
}

testVectors(t, 'sse/cases.json', 'published streams pass byte for byte', async (t, { cases }) => {
  const draw = drawNumbers(3)
  await forEach(cases, async ({ id, chunks_b64, expected }: JsonValue) => {
    const chunks: readonly Buffer[] = chunks_b64.map((chunk: string) => Buffer.from(chunk, 'base64'))
    const bytes = Buffer.concat(chunks)
    for (const pieces of [chunks, Array.from(bytes, (byte) => Buffer.from([byte])), cutAtRandom(bytes, draw)]) {
      const terminal = Buffer.from(`\n\n${completedEvent}`)
      const answer = await open(responsesPath, (socket) => {
        socket.write(chunkedHead)
        for (const piece of pieces) if (piece.length > 0) socket.write(toChunk(piece))
        socket.write(Buffer.concat([toChunk(terminal), Buffer.from(lastChunk)]))
      })
      if (!(await answer.whole()).equals(Buffer.concat([bytes, terminal]))) t.fail(`${id}: other bytes`)
    }
    const answer = await open(responsesPath, (socket) =>
      socket.end(`${streamHead}\r\n${bytes.toString('latin1')}`, 'latin1'),
    )
    const seen = parseEvents(await answer.whole())
    t.same(
      seen.slice(0, -1).map(({ data }) => data),
      expected.map(({ data }: JsonValue) => data),
      id,
    )
    t.equal(JSON.parse(seen.at(-1)?.data ?? '{}').type, 'response.failed', id)
  })
})

const streams: Readonly<Record<string, readonly [path: string, text: string]>> = {
  Responses: [responsesPath, createdEvent + deltaEvent(1) + deltaEvent(2) + completedEvent],
  chat: [chatPath, `${chatChunk}${chatChunk}data: [DONE]\n\n`],
}

/** The bytes that a client must have received of a cut stream; undefined for a refusal. */
function expectAnswer(whole: Buffer, cut: number, isProven: boolean): JsonValue {
  const before = whole.subarray(0, cut)
  const events = parseEvents(before)
  if (events.length === 0) return undefined
  // At a proven end the last event may lack the line ends of its blank line.
  if (cut === whole.length || (isProven && cut >= whole.length - 2)) return { body: whole.toString('latin1') }
  const last = JSON.parse(events.at(-1)?.data ?? '')
  return {
    body: before.subarray(0, before.lastIndexOf('\n\n') + 2).toString('latin1'),
    sequence: last.sequence_number === undefined ? 0 : last.sequence_number + 1,
    id: last.id ?? 'resp_1',
  }
}

async function testCut(t: Test, path: string, whole: Buffer, cut: number, { say, isProven = false }: Framing) {
  const answer = await open(path, (socket) => say(socket, whole.subarray(0, cut)))
  const body = (await answer.whole()).toString('latin1')
  const expected = expectAnswer(whole, cut, isProven)
  if (!expected) {
    if (answer.status !== 503 || JSON.parse(body).error.code !== 'upstream_unavailable')
      t.fail(`cut at ${cut}`, { body })
    return
  }
  const seen = {
    status: answer.status,
    passed: body.slice(0, expected.body.length),
    rest: body.slice(expected.body.length),
  }
  if (seen.status !== 200 || seen.passed !== expected.body) t.fail(`cut at ${cut}: other bytes`, seen)
  if (expected.id === undefined) {
    if (seen.rest !== '') t.fail(`cut at ${cut}: something follows`, seen)
    return
  }
  const [failed, ...more] = parseEvents(Buffer.from(seen.rest))
  const { type, sequence_number, response } = JSON.parse(failed?.data ?? '{}')
  if (type !== 'response.failed' || more.length > 0) t.fail(`cut at ${cut}: not one failure`, seen)
  if (sequence_number !== expected.sequence || response.id !== expected.id) t.fail(`cut at ${cut}: not its end`, seen)
}

type Framing = Readonly<{ say: (socket: Socket, bytes: Buffer) => void; isProven?: boolean; isForShort?: boolean }>

const framings: Readonly<Record<string, Framing>> = {
  'a FIN in chunks': {
    say: (socket, bytes) =>
      socket.end(Buffer.concat([Buffer.from(chunkedHead), ...(bytes.length > 0 ? [toChunk(bytes)] : [])])),
  },
  'a FIN without framing': {
    say: (socket, bytes) => socket.end(Buffer.concat([Buffer.from(`${streamHead}\r\n`), bytes])),
  },
  'a FIN before its length': {
    isForShort: true,
    say: (socket, bytes) =>
      socket.end(Buffer.concat([Buffer.from(`${streamHead}content-length: ${bytes.length + 1}\r\n\r\n`), bytes])),
  },
  'the end of all chunks': {
    isProven: true,
    say: (socket, bytes) =>
      socket.write(
        Buffer.concat([
          Buffer.from(chunkedHead),
          ...(bytes.length > 0 ? [toChunk(bytes)] : []),
          Buffer.from(lastChunk),
        ]),
      ),
  },
  'its length': {
    isProven: true,
    isForShort: true,
    say: (socket, bytes) =>
      socket.write(Buffer.concat([Buffer.from(`${streamHead}content-length: ${bytes.length}\r\n\r\n`), bytes])),
  },
}
// The framing is the same for both, and each cut takes a request.
for (const [name, [path, text]] of Object.entries(streams))
  for (const [how, framing] of Object.entries(framings))
    if (name === 'chat' || !framing.isForShort)
      t.test(`${name} cut at every byte by ${how}`, async (t) => {
        const whole = Buffer.from(text)
        const cuts = Array.from({ length: whole.length + 1 }, (_, cut) => cut)
        await forEach(cuts, (cut) => testCut(t, path, whole, cut, framing))
        t.pass(`${cuts.length} cuts`)
      })

t.test('Responses cut by a reset', async (t) => {
  const whole = Buffer.from(createdEvent + deltaEvent(1) + completedEvent)
  const cuts = Array.from({ length: whole.length + 1 }, (_, cut) => cut).filter((cut) => cut % 9 === 0)
  await forEach(cuts, (cut) =>
    testCut(t, responsesPath, whole, cut, {
      say: (socket, bytes) => {
        socket.write(Buffer.concat([Buffer.from(chunkedHead), ...(bytes.length > 0 ? [toChunk(bytes)] : [])]))
        // A reset takes bytes with it that have not been read yet.
        setTimeout(() => socket.resetAndDestroy(), 50)
      },
    }),
  )
  t.pass(`${cuts.length} cuts`)
})
