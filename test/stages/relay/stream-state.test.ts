import t from 'tap'
import type { StreamKind } from '../../../gateway/base/errors/surface.ts'
import { StreamState } from '../../../gateway/stages/relay/stream-state.ts'

/** The state after these blocks, and the kind of each of them. */
function readAll(kind: StreamKind, blocks: readonly string[]) {
  const account = new StreamState({ kind, end: 'marker' })
  const meanings = blocks.map((block) => account.read(Buffer.from(block)))
  const { hasEvents, hasIds, sequenceNumber, responseId, createdAt } = account
  return { meanings, hasEvents, hasIds, sequenceNumber, responseId, createdAt }
}

const event = (data: unknown, name?: string): string =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`

const meaningOf = (kind: StreamKind, block: string) => readAll(kind, [block]).meanings[0]

t.test('without a data line a block is not an event', async (t) => {
  for (const block of [
    '\n',
    '\r\n',
    ': ping\n\n',
    ':\n\n',
    'event: response.completed\n\n',
    'id: 1\n\n',
    'retry: 5\n\n',
  ])
    t.equal(meaningOf('responses', block), 'no-event', JSON.stringify(block))
  for (const block of ['dat: x\n\n', 'datas: x\n\n', ' data: x\n\n', '\ufeff\ufeffdata: x\n\n'])
    t.equal(meaningOf('responses', block), 'no-event', JSON.stringify(block))
})

t.test('a data line makes an event, an empty one too', async (t) => {
  for (const block of [
    'data\n\n',
    'data:\n\n',
    'data:x\r\r',
    'id: 1\r\ndata: x\r\n\r\n',
    ': c\ndata: x\n\n',
    '\ufeffdata: x\n\n',
  ])
    t.equal(meaningOf('responses', block), 'event', JSON.stringify(block))
})

t.test('a byte order mark counts at the start of the stream alone', async (t) => {
  t.same(readAll('responses', ['\ufeffdata: 1\n\n', '\ufeffdata: 2\n\n']).meanings, ['event', 'no-event'])
})

t.test('three types are terminal, by the data before the name', async (t) => {
  for (const type of ['response.completed', 'response.failed', 'response.incomplete']) {
    t.equal(meaningOf('responses', event({ type })), 'terminal-event', 'without a name')
    t.equal(meaningOf('responses', event({ sequence_number: 1, response: {}, type }, type)), 'terminal-event')
    t.equal(meaningOf('responses', event('no JSON', type)), 'terminal-event', 'by name alone')
    t.equal(meaningOf('responses', event({ type: 'response.output_text.delta' }, type)), 'event', 'another type')
    t.equal(meaningOf('chat', event({ type })), 'terminal-event', 'another gateway’s word on chat')
    const escaped = `{"type":"${type.replace('.', '\\u002e')}"}`
    t.equal(meaningOf('responses', event(escaped)), 'terminal-event', 'with an escape')
  }
})

t.test('nothing else is terminal', async (t) => {
  const blocks = [
    event('[DONE]'),
    event({ type: 'error', code: 'server_error', message: 'x', sequence_number: 3 }, 'error'),
    event({ type: 'response.output_text.delta', delta: 'response.completed' }),
    event({ type: 'response.output_text.delta', delta: '"type":"response.completed"' }),
    event({ type: 'response.in_progress', response: { type: 'response.completed', status: 'completed' } }),
    event({ type: 'response.completed.not' }),
    event({ type: ['response.completed'] }),
    ': response.completed\ndata: {}\n\n',
    'data: {"type":"response.\ndata: completed"}\n\n',
  ]
  for (const block of blocks) t.equal(meaningOf('responses', block), 'event', block)
})

t.test('on chat [DONE] is terminal, and finish_reason is not', async (t) => {
  for (const block of ['data: [DONE]\n\n', 'data:[DONE]\r\n\r\n', 'data: [DONE] \n\n'])
    t.equal(meaningOf('chat', block), 'terminal-event')
  for (const block of ['data:  [DONE]\n\n', ': [DONE]\n\n data\n', event({ delta: '[DONE]' })])
    t.not(meaningOf('chat', block), 'terminal-event', block)
  t.equal(meaningOf('chat', event({ id: 'c', choices: [{ finish_reason: 'stop' }] })), 'event')
})

t.test('the sequence number is the last that was seen', async (t) => {
  const numbered = (sequence_number: unknown) => event({ type: 'response.output_text.delta', sequence_number })
  t.equal(readAll('responses', [numbered(3), numbered(7)]).sequenceNumber, 7)
  t.equal(
    readAll('responses', [numbered(7), event({ type: 'error' }), ': 9\n\n']).sequenceNumber,
    7,
    'not all have one',
  )
  t.equal(readAll('responses', [numbered(7), numbered('8'), numbered(1.5)]).sequenceNumber, 7, 'only integers')
  const nested = event({ type: 'x', item: { sequence_number: 9 }, delta: '"sequence_number":10', sequence_number: 4 })
  t.equal(readAll('responses', [nested]).sequenceNumber, 4, 'of the event itself')
  t.equal(readAll('responses', ['data: {\ndata:  "sequence_number": 5,\ndata: "type": "x"}\n\n']).sequenceNumber, 5)
})

t.test('the response’s id and time of creation are the first that were told', async (t) => {
  const created = event({ type: 'response.created', response: { object: 'response', id: 'resp_1', created_at: 17 } })
  const other = event({ type: 'response.in_progress', response: { id: 'resp_2', created_at: 18 } })
  t.match(readAll('responses', [event({ type: 'x', item: { id: 'no' }, id: 'no' }), created, other]), {
    responseId: 'resp_1',
    createdAt: 17,
  })
})

t.test('the id and time of creation of a chat stream are those of its first chunk', async (t) => {
  const chunk = event({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 17, choices: [{ id: 'no' }] })
  t.match(readAll('chat', [chunk, event({ id: 'chatcmpl-2' })]), { responseId: 'chatcmpl-1', createdAt: 17 })
})

t.test('an id line is noticed, whatever its block', async (t) => {
  t.equal(readAll('responses', ['id: 1\n\n']).hasIds, true)
  t.equal(readAll('responses', ['id\ndata: x\n\n']).hasIds, true)
  t.equal(readAll('responses', [event({ id: 1 }), ': id: 1\n\n', 'idea: 1\n\n']).hasIds, false)
})

/** Both parts: the kernel knows their sum, and only estimates how much of it was the system's. */
function spentMs(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since)
  return (user + system) / 1_000
}

/** The least processor time of a few runs. */
const measureMs = (run: () => unknown): number =>
  Math.min(
    ...Array.from({ length: 5 }, () => {
      const started = process.cpuUsage()
      run()
      return spentMs(started)
    }),
  )

t.test('a large event is read no further than needed', async (t) => {
  const account = new StreamState({ kind: 'responses', end: 'marker' })
  account.read(Buffer.from(event({ response: { id: 'r' } })))
  const delta = '\\"x'.repeat(4_000_000)
  const block = Buffer.from(`data: {"type":"x","sequence_number":2,"delta":"${delta}"}\n\n`)
  const json = block.subarray('data: '.length)
  const [readMs, parseMs] = [measureMs(() => account.read(block)), measureMs(() => JSON.parse(json.toString()))]
  t.equal(account.sequenceNumber, 2)
  t.ok(readMs < parseMs / 2, `${readMs} ms, where parsing takes ${parseMs} ms`)
})

t.test('many lines cost no more than their bytes', async (t) => {
  const account = new StreamState({ kind: 'responses', end: 'marker' })
  const started = process.cpuUsage()
  account.read(Buffer.from(`${'data\n'.repeat(1_000_000)}data: x\r\n\r\n`))
  account.read(Buffer.from(`${'comment without a colon\n'.repeat(500_000)}data: x\n\n`))
  t.ok(spentMs(started) < 3_000)
})
