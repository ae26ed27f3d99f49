import type { Socket } from 'node:net'
import t from 'tap'
import { cutAtRandom, drawNumbers, type ParsedEvent, parseEvents } from '../support/event-streams.ts'
import {
  chatPath,
  chunkedHead,
  lastChunk,
  responsesPath,
  startStreamPair,
  streamHead,
  toChunk,
} from '../support/streams.ts'

/** Keep-alives come wherever a piece is late: between a CR and its LF, and within a character, too. */
const { open } = await startStreamPair(t, { settings: { timeouts: { keepAliveMs: 10 } } })

const draw = drawNumbers(Number(process.env.SEED) || 7)
const choose = <T>(list: readonly T[]): T => list[Math.floor(draw() * list.length)] as T // within the list's bounds
const isDrawn = (share: number): boolean => draw() < share

const blocks: readonly ((number: number, end: string) => string)[] = [
  (number, end) => `event: x${end}data: {"type":"x","sequence_number":${number},"t":"wörd 😀"}${end}${end}`,
  (number, end) => `id: ${number}${end}data: {"type":"x","sequence_number":${number}}${end}${end}`,
  (_, end) => `data: {"a":1,${end}data: "type":"y"}${end}${end}`,
  (_, end) => `data${end}foo: bar${end}data:x${end}${end}`,
  (_, end) => `: ping${end}${isDrawn(0.5) ? end : ''}`,
  (number, end) => `id: ${number}${end}${end}`,
  (_, end) => `retry: 5${end}${end}`,
  (_, end) => end,
]

const terminals = {
  responses: 'event: response.completed\r\ndata: {"type":"response.completed","sequence_number":9}\r\n\r\n',
  chat: 'data: [DONE]\n\n',
}

function compose(kind: keyof typeof terminals): string {
  let text = isDrawn(0.2) ? '\ufeff' : ''
  const count = Math.floor(draw() * 8)
  for (let number = 0; number < count; number++) text += choose(blocks)(number, choose(['\n', '\r', '\r\n']))
  if (isDrawn(0.4)) text += terminals[kind]
  return isDrawn(0.3) ? `${text}data: tail` : text
}

const framings: readonly Readonly<{ head: string; frame: (piece: Buffer) => Buffer; end: (socket: Socket) => void }>[] =
  [
    { head: chunkedHead, frame: toChunk, end: (socket) => void socket.write(lastChunk) },
    { head: chunkedHead, frame: toChunk, end: (socket) => void socket.end() },
    { head: `${streamHead}\r\n`, frame: (piece) => piece, end: (socket) => void socket.end() },
  ]

async function say(socket: Socket, pieces: readonly (readonly [piece: Buffer, pauseMs: number])[], how: number) {
  const { head, frame, end } = framings[how % framings.length] ?? choose(framings)
  socket.write(head)
  for (const [piece, pauseMs] of pieces) {
    socket.write(frame(piece))
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
  end(socket)
}

function typeOf(data: string): unknown {
  try {
    return JSON.parse(data).type
  } catch {
    return undefined // as an SDK would find out
  }
}

/** The faults of an answer to a stream of these events. */
function findFault(events: readonly ParsedEvent[], isChat: boolean, status: number, body: Buffer): string | undefined {
  if (status === 503) return events.length === 0 ? undefined : 'a refusal in place of events'
  const seen = parseEvents(body)
  const rest = seen.slice(events.length)
  if (JSON.stringify(seen.slice(0, events.length)) !== JSON.stringify(events)) return 'other events, names or ids'
  const isWhole = events.some(
    ({ data }) => (isChat && data.startsWith('[DONE]')) || typeOf(data) === 'response.completed',
  )
  const types = rest.map(({ data }) => typeOf(data))
  const failure = events.length === 0 && !isChat ? ['response.created', 'response.failed'] : ['response.failed']
  return JSON.stringify(types) === JSON.stringify(isWhole ? [] : failure) ? undefined : `it ends in ${types}`
}

t.test('with any line ends and keep-alives a client sees the same events and one end', async (t) => {
  const cases = Array.from({ length: Number(process.env.MIXTURES) || 200 }, (_, index) => index)
  const work = async (): Promise<void> => {
    for (let index = cases.shift(); index !== undefined; index = cases.shift()) {
      const kind = choose(['responses', 'responses', 'chat'] as const)
      const text = compose(kind)
      const bytes = Buffer.from(text)
      const pieces = cutAtRandom(bytes, draw).map((piece) => [piece, isDrawn(0.3) ? draw() * 30 : 0] as const)
      const number = index
      const path = kind === 'chat' ? chatPath : responsesPath
      const answer = await open(path, (socket) => void say(socket, pieces, number))
      const body = await answer.whole()
      const fault = findFault(parseEvents(bytes), kind === 'chat', answer.status, body)
      if (fault !== undefined) t.fail(fault, { text, body: body.toString() })
    }
  }
  await Promise.all(Array.from({ length: 12 }, work))
  t.equal(cases.length, 0)
})
