import t from 'tap'
import { chatChunk, completedEvent, createdEvent, deltaEvent, writeEvent } from '../../support/event-streams.ts'
import { type FakeOptions, openFakeStream } from '../../support/fake-stream.ts'

const terminal = `data: ${JSON.stringify({ type: 'response.completed', response: { id: 'resp_1', output: [{}] } })}`

/** The end of a last event as servers write it, with the line ends that the gateway adds. */
const endings: Readonly<Record<string, readonly [held: string, added: string]>> = {
  'no line end': [terminal, '\n\n'],
  'an LF': [`${terminal}\n`, '\n'],
  'a CR LF': [`${terminal}\r\n`, '\n'],
  'a CR': [`${terminal}\r`, '\n\n'],
  'a comment behind it': [`${terminal}\n: done`, '\n\n'],
  'an id behind it': [`${terminal}\nid: 7\n`, '\n'],
  'no space behind the colon': [terminal.replace('data: ', 'data:'), '\n\n'],
  'a name before it': [`event: response.completed\n${terminal}`, '\n\n'],
  'its data in two lines': [terminal.replace(',"response"', '\ndata: ,"response"'), '\n\n'],
}

for (const [name, [held, added]] of Object.entries(endings))
  t.test(`at a proven end a terminal event with ${name} passes, closed`, async (t) => {
    for (const before of ['', createdEvent + deltaEvent(1)])
      for (const size of [1, 7, 1_000]) {
        const fake = openFakeStream()
        const text = before + held
        for (let at = 0; at < text.length; at += size) fake.data(text.slice(at, at + size))
        fake.end('framed')
        t.match(fake.seen, { written: text + added, heads: 1, ends: 1, refusal: undefined, failures: [] })
        t.equal(fake.clock.countRunning(), 0)
      }
  })

t.test('each terminal type passes, and [DONE] on chat', async (t) => {
  const streams: readonly (readonly [FakeOptions, string])[] = [
    [{}, `${createdEvent}${writeEvent('response.failed', 3).trimEnd()}`],
    [{}, `${createdEvent}${writeEvent('response.incomplete', 3).trimEnd()}`],
    [{ kind: 'chat' }, `${chatChunk}data: [DONE]`],
    [{ kind: 'chat' }, `${chatChunk}data:[DONE]`],
    [{ kind: 'chat' }, `${chatChunk}${writeEvent('response.failed', 3).trimEnd()}`],
  ]
  for (const [options, text] of streams) {
    const fake = openFakeStream(options)
    fake.data(text)
    fake.end('framed')
    t.match(fake.seen, { written: `${text}\n\n`, ends: 1, failures: [] })
  }
})

const cutOut: Readonly<Record<string, readonly [text: string, options?: FakeOptions]>> = {
  'an event that is not terminal': [deltaEvent(2).trimEnd()],
  'JSON that breaks off': [terminal.slice(0, -1)],
  'JSON that is broken inside': [terminal.replace('[{}]', '[{]}')],
  'something behind its JSON': [`${terminal}}`],
  'a terminal name alone': ['event: response.completed\ndata: {}'],
  'a terminal name over cut data': ['event: response.completed\ndata: {"type":"response.com'],
  'a type that a later one replaces': ['data: {"type":"response.completed","type":"response.created"}'],
  'a type that stands deeper': ['data: {"response":{"type":"response.completed"}}'],
  'a type in a text': ['data: {"type":"x","delta":"\\"type\\":\\"response.completed\\""}'],
  'no data': [`: ${terminal}`],
  'half a marker': ['data: [DONE', { kind: 'chat' }],
  'the marker of chat': ['data: [DONE]'],
}

for (const [name, [held, options = {}]] of Object.entries(cutOut))
  t.test(`at a proven end ${name} is cut out, and the stream has failed`, async (t) => {
    const fake = openFakeStream(options)
    fake.data(createdEvent + held)
    fake.end('framed')
    t.equal(fake.seen.written.includes(held), false)
    t.match(fake.seen, { ends: 1, failures: ['worker_disconnected'] })
    t.match(fake.seen.written.slice(createdEvent.length), /"type":"response\.failed","sequence_number":[01]/)
    const first = openFakeStream(options)
    first.clock.advance(15_000)
    first.data(held)
    first.end('framed')
    if (options.kind !== 'chat')
      t.match(first.seen.written, /^:keep-alive\n\nevent: response\.created\n/, 'none was seen')
  })

t.test('a held terminal event never passes after another end than a proven one', async (t) => {
  for (const end of [
    (fake: ReturnType<typeof openFakeStream>) => fake.end('closed'),
    (fake: ReturnType<typeof openFakeStream>) => fake.fail('protocol-error'),
    (fake: ReturnType<typeof openFakeStream>) => fake.fail('timeout'),
    (fake: ReturnType<typeof openFakeStream>) => fake.stream.drain(),
    (fake: ReturnType<typeof openFakeStream>) => fake.stream.endAccess('access_revoked', undefined),
  ]) {
    const fake = openFakeStream()
    fake.data(createdEvent + terminal)
    end(fake)
    fake.end('framed')
    t.equal(fake.seen.written.includes('response.completed'), false)
    t.match(fake.seen, { ends: 1, failures: [String] })
  }
})

t.test('a held terminal event passes once, and none behind another', async (t) => {
  const fake = openFakeStream()
  fake.data(createdEvent + terminal)
  fake.end('framed')
  fake.end('framed')
  fake.stream.drain()
  t.match(fake.seen, { written: `${createdEvent}${terminal}\n\n`, ends: 1, failures: [] })
  const whole = openFakeStream()
  whole.data(createdEvent + completedEvent + terminal)
  whole.end('framed')
  t.match(whole.seen, { written: createdEvent + completedEvent + terminal, ends: 1, failures: [] })
})

t.test(
  'a held terminal event reaches a client that was behind, and a head that cannot be written refuses it',
  async (t) => {
    const slow = openFakeStream()
    slow.slowDown()
    slow.data(createdEvent + terminal)
    slow.end('framed')
    t.match(slow.seen, { written: `${createdEvent}${terminal}\n\n`, ends: 1, failures: [] })
    const headError = new Error('no head')
    const refused = openFakeStream({ headError })
    refused.data(terminal)
    refused.end('framed')
    t.match(refused.seen, { refusal: headError, written: '', ends: 0 })
  },
)
