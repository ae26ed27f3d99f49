import t from 'tap'
import { type FakeOptions, openFakeStream } from '../../support/fake-stream.ts'

type Choice = Readonly<Record<string, unknown>>

const chunk = (...choices: readonly Choice[]): string => write({ id: 'chatcmpl-1', created: 17, choices })
const write = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`
const says = (content: string, index = 0): Choice => ({ index, delta: { content }, finish_reason: null })
const ends = (finish_reason: unknown, index = 0, delta: unknown = {}): Choice => ({ index, delta, finish_reason })
const usage = write({ id: 'chatcmpl-1', choices: [], usage: { total_tokens: 3 } })
const done = 'data: [DONE]\n\n'

const open = (more: FakeOptions = {}) => openFakeStream({ kind: 'chat', ends: 'finishReason', ...more })
const begin = chunk(says('Hel'))

const good: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ['stop', 'length', 'tool_calls', 'content_filter', 'function_call'].map((reason) => [
      `a finish_reason ${reason}`,
      begin + chunk(ends(reason)),
    ]),
  ),
  'content with the finish_reason': begin + chunk(ends('stop', 0, { content: 'lo' })),
  'usage behind it': begin + chunk(ends('stop')) + usage,
  'usage with no list': begin + chunk(ends('stop')) + write({ choices: null, usage: {} }),
  'a comment behind it': `${begin}${chunk(ends('stop'))}: bye\n\n`,
  'an empty delta and a role behind it':
    begin + chunk(ends('stop')) + chunk({ ...says(''), delta: { role: 'assistant', content: '' } }),
  'the same reason again': begin + chunk(ends('stop')) + chunk(ends('stop')),
  'an empty reason before it': chunk({ index: 0, delta: { content: 'x' }, finish_reason: '' }) + chunk(ends('stop')),
  'two choices': chunk(says('a', 1)) + chunk(ends('stop', 1)) + chunk(says('b')) + chunk(ends('length')),
  'two choices of one chunk': chunk(says('a'), says('b', 1)) + chunk(ends('stop'), ends('stop', 1)),
  'choices without an index': chunk({ delta: { content: 'x' } }) + chunk({ delta: {}, finish_reason: 'stop' }),
  'an older completion':
    chunk({ index: 0, text: 'x', finish_reason: null }) + chunk({ index: 0, text: '', finish_reason: 'stop' }),
  'an error that is null': begin + write({ error: null, choices: [ends('stop')] }),
  'CR LF': (begin + chunk(ends('stop'))).replaceAll('\n', '\r\n'),
  CR: (begin + chunk(ends('stop'))).replaceAll('\n', '\r'),
  'no space behind the colon': (begin + chunk(ends('stop'))).replaceAll('data: ', 'data:'),
}

for (const [name, text] of Object.entries(good))
  t.test(`${name} is a good end at a proven end, and gets [DONE]`, async (t) => {
    const fake = open()
    for (let at = 0; at < text.length; at += 9) fake.data(text.slice(at, at + 9))
    fake.end('framed')
    t.match(fake.seen, { written: text + done, ends: 1, failures: [], refusal: undefined })
    t.equal(fake.clock.countRunning(), 0)
  })

t.test('the last chunk may lack its blank line, also as the only one', async (t) => {
  for (const before of ['', begin, begin + chunk(ends('stop'))])
    for (const last of [
      chunk(ends('stop')).trimEnd(),
      ...(before.includes('stop') ? [usage.trimEnd(), ': bye'] : []),
    ]) {
      const fake = open()
      fake.data(before + last)
      fake.end('framed')
      t.match(fake.seen, { written: `${before}${last}\n\n${done}`, ends: 1, failures: [] })
    }
})

const bad: Readonly<Record<string, string>> = {
  'no finish_reason': begin + chunk(says('lo')),
  'no choice at all': usage,
  ...Object.fromEntries(
    ['abort', 'error', 'STOP', 'eos_token', 7, true, ['stop'], {}].map((reason) => [
      `a finish_reason ${JSON.stringify(reason)}`,
      begin + chunk(ends(reason)),
    ]),
  ),
  'an unknown reason before a good one': begin + chunk(ends('abort')) + chunk(ends('stop')),
  'an unknown reason behind a good one': begin + chunk(ends('stop')) + chunk(ends('error')),
  'more content behind it': begin + chunk(ends('stop')) + chunk(says('more')),
  'more of a tool call behind it':
    begin + chunk(ends('stop')) + chunk({ ...says(''), delta: { tool_calls: [{ index: 0 }] } }),
  'more text behind it': chunk(ends('stop')) + chunk({ index: 0, text: 'more' }),
  'a delta that is no object behind it': chunk(ends('stop')) + chunk({ index: 0, delta: 'more' }),
  'a second choice without one': begin + chunk(says('x', 1)) + chunk(ends('stop')),
  'a first choice that never came': chunk(ends('stop', 1)),
  'an error of the stream': begin + chunk(ends('stop')) + write({ error: { message: 'x' } }),
  'an error beside its choices': begin + write({ error: { message: 'x' }, choices: [ends('stop')] }),
  'an error of a choice': begin + chunk({ ...ends('stop'), error: { message: 'x' } }),
  'an event named error': `${begin}${chunk(ends('stop'))}event: error\ndata: {}\n\n`,
  'a type error': begin + chunk(ends('stop')) + write({ type: 'error', message: 'x' }),
  'an index that is none': begin + chunk(ends('stop')) + chunk(ends('stop', -1)),
  'an index beyond those of the API': begin + chunk(ends('stop')) + chunk(ends('stop', 128)),
  'choices that are no list': `${begin}data: {"choices":{"0":{"finish_reason":"stop"}}}\n\n`,
  'choices that are no list behind it': begin + chunk(ends('stop')) + write({ choices: {} }),
  'a choice that is no object': `${begin}${chunk(ends('stop'))}data: {"choices":[7]}\n\n`,
  'choices told twice': `${begin}data: {"choices":[{"index":0,"finish_reason":"stop"}],"choices":[]}\n\n`,
  'a reason told twice': `${begin}data: {"choices":[{"index":0,"finish_reason":"x","finish_reason":"stop"}]}\n\n`,
  'an event that is not JSON': `${begin}${chunk(ends('stop'))}data: oops\n\n`,
  'broken JSON': `${begin}${chunk(ends('stop')).replace('}]}', '}]')}`,
  'half a last event': `${begin}${chunk(ends('stop'))}data: {"choi`,
  'half a last line': `${begin}${chunk(ends('stop'))}dat`,
  'an unframed error before a blank line': `${begin}${chunk(ends('stop'))}{"error":{"message":"x"}}\n\n`,
  'an unframed error before a comment': `${begin}${chunk(ends('stop'))}{"error":{"message":"x"}}\n\n: bye`,
  'an unframed error at the end': `${begin}${chunk(ends('stop'))}{"error":{"message":"x"}}`,
}

for (const [name, text] of Object.entries(bad))
  t.test(`${name} is not a good end`, async (t) => {
    const fake = open({ eventLimitBytes: 10_000 })
    fake.data(text)
    fake.end('framed')
    t.equal(fake.seen.written.includes('[DONE]'), false)
    t.match(fake.seen, { ends: 1, failures: ['worker_disconnected'] })
  })

t.test('a good end needs a proven one: no other end gets [DONE]', async (t) => {
  for (const end of [
    (fake: ReturnType<typeof open>) => fake.end('closed'),
    (fake: ReturnType<typeof open>) => fake.fail('protocol-error'),
    (fake: ReturnType<typeof open>) => fake.fail('timeout'),
    (fake: ReturnType<typeof open>) => fake.stream.drain(),
    (fake: ReturnType<typeof open>) => fake.stream.endAccess('access_revoked', undefined),
  ]) {
    const fake = open()
    fake.data(begin + chunk(ends('stop')))
    end(fake)
    fake.end('framed')
    t.equal(fake.seen.written.includes('[DONE]'), false)
    t.match(fake.seen, { ends: 1, failures: [String] })
  }
})

t.test('a marker of the upstream ends the stream as ever, once', async (t) => {
  const fake = open()
  fake.data(begin + done)
  fake.end('framed')
  t.match(fake.seen, { written: begin + done, ends: 1, failures: [] })
  const held = open()
  held.data(`${begin}${chunk(ends('stop'))}data: [DONE]`)
  held.end('framed')
  t.match(held.seen, { written: `${begin}${chunk(ends('stop'))}${done}`, ends: 1, failures: [] })
})

t.test('without end: finishReason a finish_reason ends no chat', async (t) => {
  const fake = openFakeStream({ kind: 'chat' })
  fake.data(begin + chunk(ends('stop')))
  fake.end('framed')
  t.match(fake.seen, { ends: 1, failures: ['worker_disconnected'] })
})

t.test('[DONE] waits for a judgement of the rights that is due, and does not follow one that ends them', async (t) => {
  let judge = (): void => {}
  const confirm = () =>
    new Promise<void>((resolve) => {
      judge = resolve
    })
  for (const isRevoked of [false, true]) {
    const fake = open({ confirm })
    fake.data(begin + chunk(ends('stop')))
    fake.end('framed')
    t.match(fake.seen, { ends: 0, written: begin + chunk(ends('stop')) })
    if (isRevoked) fake.stream.endAccess('access_revoked', undefined)
    judge()
    await new Promise((resolve) => setImmediate(resolve))
    t.equal(fake.seen.written.endsWith(done), !isRevoked)
    t.match(fake.seen, { ends: 1, failures: isRevoked ? ['access_revoked'] : [] })
    t.equal(fake.clock.countRunning(), 0)
  }
})
