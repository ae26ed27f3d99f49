import t, { type Test } from 'tap'
import { GatewayError } from '../../../gateway/base/errors/gateway-error.ts'
import {
  chatChunk,
  completedEvent,
  createdEvent,
  deltaEvent,
  parseEvents,
  writeEvent,
} from '../../support/event-streams.ts'
import { type FakeOptions, type FakeStream, openFakeStream } from '../../support/fake-stream.ts'

const keepAlive = ':keep-alive\n\n'

const failureOf = (code: string, sequence: number, response: Readonly<Record<string, unknown>> = {}) => ({
  type: 'response.failed',
  sequence_number: sequence,
  response: {
    id: 'resp_1',
    object: 'response',
    created_at: 17,
    status: 'failed',
    error: { code: 'server_error', message: String },
    output: [],
    metadata: { x_service_error_code: code, x_service_error_message: String },
    ...response,
  },
})

/** The end of the stream: all bytes after these, as events. */
const endingOf = ({ seen }: FakeStream, passed: string) => {
  if (!seen.written.startsWith(passed)) throw new Error(`not what should have passed: ${seen.written}`)
  return parseEvents(Buffer.from(seen.written.slice(passed.length), 'latin1'))
}

/** The one closing event, named and in one line, then a clean end of everything. */
function testFailed(t: Test, fake: FakeStream, passed: string, failure: ReturnType<typeof failureOf>): void {
  const [ending, ...more] = endingOf(fake, passed)
  t.same(more, [])
  t.equal(ending?.event, 'response.failed')
  t.match(JSON.parse(ending?.data ?? ''), failure)
  testEnded(t, fake)
  t.same(fake.seen.failures, [failure.response.metadata.x_service_error_code])
}

function testEnded(t: Test, { seen, clock }: FakeStream): void {
  t.equal(seen.ends, 1)
  t.equal(clock.countRunning(), 0, 'no timer is left')
}

const ends: Readonly<Record<string, readonly [end: (fake: FakeStream) => void, code: string, refusal: string]>> = {
  'an end': [(fake) => fake.end(), 'worker_disconnected', 'upstream_unavailable'],
  'a break': [(fake) => fake.fail('protocol-error'), 'worker_disconnected', 'upstream_unavailable'],
  'a time-out': [(fake) => fake.fail('timeout'), 'upstream_timeout', 'upstream_timeout'],
  'our drain': [(fake) => fake.stream.drain(), 'gateway_draining', 'gateway_draining'],
  'an event over the limit': [(fake) => fake.data('x'.repeat(1_001)), 'event_too_large', 'event_too_large'],
}

t.test('the head is held until the first event, and goes out with it', async (t) => {
  const fake = openFakeStream()
  for (const text of ['', '\n', ': ping\n\n', 'retry: 5\n\n', 'event: x\n\n', createdEvent.slice(0, -1)]) {
    fake.data(text)
    t.match(fake.seen, { heads: 0, started: 0, written: '' }, JSON.stringify(text))
  }
  fake.data('\n')
  t.match(fake.seen, { heads: 1, started: 1, written: `\n: ping\n\nretry: 5\n\nevent: x\n\n${createdEvent}` })
})

t.test('without an event the head goes out after 15 s, with a keep-alive', async (t) => {
  const fake = openFakeStream()
  fake.data(': ping\n\n')
  fake.clock.advance(14_999)
  t.match(fake.seen, { heads: 0, started: 0 })
  fake.clock.advance(1)
  t.match(fake.seen, { heads: 1, started: 1, written: `: ping\n\n${keepAlive}` })
})

t.test('a keep-alive goes out after every 15 s of quiet', async (t) => {
  const fake = openFakeStream()
  fake.data(createdEvent)
  fake.clock.advance(14_000)
  fake.data(deltaEvent(1))
  fake.clock.advance(14_999)
  t.equal(fake.seen.written, createdEvent + deltaEvent(1))
  fake.clock.advance(1)
  fake.clock.advance(30_000)
  t.equal(fake.seen.written, createdEvent + deltaEvent(1) + keepAlive.repeat(3))
  fake.data(deltaEvent(2))
  t.ok(fake.seen.written.endsWith(keepAlive + deltaEvent(2)))
})

t.test('half an event does not pass, and a keep-alive never stands in one', async (t) => {
  const fake = openFakeStream()
  fake.data(createdEvent + deltaEvent(1).slice(0, 20))
  fake.clock.advance(15_000)
  t.equal(fake.seen.written, createdEvent + keepAlive)
  fake.data(deltaEvent(1).slice(20))
  t.equal(fake.seen.written, createdEvent + keepAlive + deltaEvent(1))
})

t.test('once the client holds an event id, a keep-alive has no blank line', async (t) => {
  const fake = openFakeStream()
  fake.data(`id: 1\n${createdEvent}`)
  fake.clock.advance(15_000)
  fake.data(deltaEvent(1))
  t.equal(fake.seen.written, `id: 1\n${createdEvent}:keep-alive\n${deltaEvent(1)}`)
  t.equal(parseEvents(Buffer.from(fake.seen.written)).length, 2)
})

t.test('whole events of one chunk pass at once, in one write', async (t) => {
  const fake = openFakeStream()
  fake.data(createdEvent)
  const { writes } = fake.seen
  fake.data(deltaEvent(1) + deltaEvent(2) + deltaEvent(3))
  t.equal(fake.seen.writes, writes + 1)
})

t.test('a byte order mark that would no longer come first is left out', async (t) => {
  const mark = Buffer.from('\ufeff').toString('latin1')
  const plain = openFakeStream()
  plain.data(mark + createdEvent)
  t.equal(plain.seen.written, mark + createdEvent)
  const late = openFakeStream()
  late.clock.advance(15_000)
  late.data(mark + createdEvent)
  late.data(`${mark}data: x\n\n`)
  t.equal(late.seen.written, `${keepAlive}${createdEvent}${mark}data: x\n\n`)
})

for (const [how, [end, code, refusal]] of Object.entries(ends)) {
  t.test(`${how} before the first event is a refusal`, async (t) => {
    for (const before of ['', ': ping\n\n', createdEvent.slice(0, 40)]) {
      const fake = openFakeStream()
      fake.data(before)
      end(fake)
      t.ok(fake.seen.refusal instanceof GatewayError)
      t.match(fake.seen.refusal, { status: 503, code: refusal })
      t.match(fake.seen, { heads: 0, written: '', ends: 0, failures: [] })
      t.equal(fake.clock.countRunning(), 0)
    }
  })

  t.test(`${how} after events is one response.failed and a clean end`, async (t) => {
    const fake = openFakeStream()
    fake.data(createdEvent + deltaEvent(1) + deltaEvent(7))
    end(fake)
    testFailed(t, fake, createdEvent + deltaEvent(1) + deltaEvent(7), failureOf(code, 8))
    for (const [again] of Object.values(ends)) again(fake)
    fake.clock.advance(100_000)
    testFailed(t, fake, createdEvent + deltaEvent(1) + deltaEvent(7), failureOf(code, 8))
  })

  t.test(`${how} in the middle of an event cuts it out`, async (t) => {
    const fake = openFakeStream()
    fake.data(createdEvent + deltaEvent(1) + deltaEvent(2).slice(0, -1))
    end(fake)
    testFailed(t, fake, createdEvent + deltaEvent(1), failureOf(code, 2))
  })

  t.test(`${how} after keep-alives alone is a response.created and a response.failed`, async (t) => {
    const fake = openFakeStream()
    fake.clock.advance(15_000)
    end(fake)
    const [first, second, ...more] = endingOf(fake, keepAlive)
    t.same(more, [])
    t.equal(first?.event, 'response.created')
    const identity = { id: 'resp_made', created_at: Date.UTC(2026, 0, 1, 0, 0, 15) / 1_000 }
    t.match(JSON.parse(first?.data ?? ''), {
      type: 'response.created',
      sequence_number: 0,
      response: { ...identity, object: 'response', status: 'in_progress', error: null, output: [], metadata: {} },
    })
    t.equal(second?.event, 'response.failed')
    t.match(JSON.parse(second?.data ?? ''), failureOf(code, 1, identity))
    testEnded(t, fake)
  })

  t.test(`${how} on chat is a data line with an error on top, and no [DONE]`, async (t) => {
    for (const [before, identity] of [
      [chatChunk, { id: 'chatcmpl-1', created_at: 17 }],
      ['', { id: 'chatcmpl-made', created_at: Number }],
    ] as const) {
      const fake = openFakeStream({ kind: 'chat' })
      fake.data(before)
      if (!before) fake.clock.advance(15_000)
      end(fake)
      const [ending, ...more] = endingOf(fake, before || keepAlive)
      t.same(more, [])
      t.equal(ending?.event, undefined)
      t.match(JSON.parse(ending?.data ?? ''), {
        ...failureOf(code, 0, identity),
        error: { message: String, type: 'server_error', code: 'server_error', x_service_error_code: code },
      })
      testEnded(t, fake)
    }
  })

  t.test(`${how} after the terminal event is a clean end and nothing else`, async (t) => {
    const dialects: readonly (readonly [FakeOptions, string])[] = [
      [{}, createdEvent + completedEvent],
      [{}, createdEvent + writeEvent('response.incomplete', 3)],
      [{}, writeEvent('response.failed', 3)],
      [{ kind: 'chat' }, `${chatChunk}data: [DONE]\n\n`],
    ]
    for (const [options, stream] of dialects) {
      const fake = openFakeStream(options)
      fake.data(stream)
      fake.clock.advance(100_000)
      end(fake)
      if (how === 'an event over the limit') fake.end()
      t.equal(fake.seen.written.replace(/x*$/, ''), stream)
      testEnded(t, fake)
      t.same(fake.seen.failures, [])
    }
  })

  t.test(`${how} tells a client that has left nothing`, async (t) => {
    for (const before of ['', createdEvent, createdEvent + completedEvent]) {
      const fake = openFakeStream()
      fake.data(before)
      fake.leave()
      const { written } = fake.seen
      end(fake)
      fake.clock.advance(100_000)
      t.match(fake.seen, { written, ends: 0, started: 1, refusal: undefined, failures: [] })
      t.equal(fake.clock.countRunning(), 0)
    }
  })
}

t.test('bytes of an upstream after its terminal event pass unchanged, half events and all', async (t) => {
  const fake = openFakeStream()
  const rest = ['data: half', ' an event', '\n\n: ping\n\n', deltaEvent(3), 'x'.repeat(5_000)]
  fake.data(createdEvent + completedEvent + rest[0])
  for (const text of rest.slice(1)) fake.data(text)
  fake.end()
  t.equal(fake.seen.written, createdEvent + completedEvent + rest.join(''))
  testEnded(t, fake)
})

t.test('neither an error event nor [DONE] ends a Responses stream, nor finish_reason a chat', async (t) => {
  for (const [options, last, sequence] of [
    [{}, writeEvent('error', 4, { code: 'server_error', message: 'x' }), 5],
    [{}, 'data: [DONE]\n\n', 1],
    [{ kind: 'chat' }, 'data: {"choices":[{"finish_reason":"stop"}]}\n\n', 0],
  ] as const) {
    const fake = openFakeStream(options)
    fake.data(createdEvent + last)
    fake.end()
    const [ending] = endingOf(fake, createdEvent + last)
    t.match(JSON.parse(ending?.data ?? ''), { type: 'response.failed', sequence_number: sequence })
  }
})

t.test('a stream whose events tell neither number nor id fails with those of the gateway’s own', async (t) => {
  const fake = openFakeStream()
  fake.data('data: {}\n\n')
  fake.end()
  testFailed(t, fake, 'data: {}\n\n', failureOf('worker_disconnected', 0, { id: 'resp_made', created_at: Number }))
})

t.test('an event of exactly the limit passes; events before a larger one do too', async (t) => {
  const exact = `data: ${'x'.repeat(992)}\n\n`
  t.equal(exact.length, 1_000)
  const fake = openFakeStream()
  fake.data(`${exact + exact}data: ${'x'.repeat(993)}\n\n`)
  const [ending] = endingOf(fake, exact + exact)
  t.match(JSON.parse(ending?.data ?? ''), failureOf('event_too_large', 0, { id: String, created_at: Number }))
  t.equal(fake.seen.aborts, 1, 'the upstream is told to stop')
})

t.test('bytes held before the first event are bounded like an event', async (t) => {
  const fake = openFakeStream()
  for (let count = 0; count < 200; count++) fake.data(': ping\n\n')
  t.match(fake.seen.refusal, { code: 'event_too_large' })
})

t.test('a slow client pauses the upstream until it has caught up', async (t) => {
  const fake = openFakeStream()
  t.equal(fake.data(createdEvent), true)
  fake.slowDown()
  t.equal(fake.data(deltaEvent(1)), false)
  t.equal(fake.data(deltaEvent(2).slice(0, 9)), false, 'nothing was written, and still')
  t.equal(fake.seen.resumes, 0)
  fake.catchUp()
  t.equal(fake.seen.resumes, 1)
  t.equal(fake.data(deltaEvent(2).slice(9)), true)
  t.equal(fake.seen.written, createdEvent + deltaEvent(1) + deltaEvent(2))
})

t.test('a client that takes no events gets no keep-alives on top', async (t) => {
  const fake = openFakeStream()
  fake.slowDown()
  fake.data(createdEvent)
  fake.clock.advance(60_000)
  t.equal(fake.seen.written, createdEvent)
  fake.catchUp()
  fake.clock.advance(15_000)
  t.equal(fake.seen.written, createdEvent + keepAlive)
})

t.test('a failure reaches a slow client as well', async (t) => {
  const fake = openFakeStream()
  fake.slowDown()
  fake.data(createdEvent)
  fake.end()
  testFailed(t, fake, createdEvent, failureOf('worker_disconnected', 1))
})

t.test('a right that ends is told in one failure, unless the client is behind: then it is reset', async (t) => {
  const told = openFakeStream()
  told.data(createdEvent)
  told.stream.endAccess('access_revoked', undefined)
  t.equal(told.data(deltaEvent(1)), true)
  testFailed(t, told, createdEvent, failureOf('access_revoked', 1))
  t.match(told.seen, { aborts: 1, closes: 1, resets: 0 })
  for (const passed of [createdEvent, createdEvent + completedEvent]) {
    const behind = openFakeStream({ eventLimitBytes: 10_000 })
    behind.slowDown()
    behind.data(passed)
    behind.stream.endAccess('access_revoked', undefined)
    t.match(behind.seen, { written: passed, resets: 1, aborts: 1, ends: 0, failures: ['access_revoked'] })
  }
  const whole = openFakeStream()
  whole.data(createdEvent + completedEvent)
  whole.stream.endAccess('access_revoked', undefined)
  t.match(whole.seen, { written: createdEvent + completedEvent, resets: 0, aborts: 1, ends: 1, failures: [] })
  const unbegun = openFakeStream()
  unbegun.stream.endAccess('credential_expired', undefined)
  t.match(unbegun.seen, { written: '', heads: 0, aborts: 1 })
  t.match(unbegun.seen.refusal, { code: 'unauthenticated' })
})

t.test('a head that cannot be written is refused, and the upstream let go', async (t) => {
  const headError = new Error('no head')
  const fake = openFakeStream({ headError })
  fake.data(createdEvent)
  t.equal(fake.seen.refusal, headError)
  t.match(fake.seen, { started: 0, aborts: 1, ends: 0 })
  fake.end()
  fake.clock.advance(100_000)
  t.match(fake.seen, { written: '', ends: 0, failures: [] })
  const late = openFakeStream({ headError })
  late.clock.advance(15_000)
  t.equal(late.seen.refusal, headError)
})

t.test('a stream is open until its client has all of it or is gone, however it went', async (t) => {
  for (const end of [() => {}, ...Object.values(ends).map(([end]) => end)])
    for (const before of ['', createdEvent, createdEvent + completedEvent]) {
      const fake = openFakeStream()
      fake.data(before)
      end(fake)
      t.equal(fake.isOpen(), true, 'its last words may be on their way')
      fake.leave()
      t.equal(fake.isOpen(), false)
    }
})

t.test('a stream that is cancelled because its client leaves has not failed', async (t) => {
  for (const before of ['', createdEvent, createdEvent + completedEvent]) {
    const fake = openFakeStream()
    fake.data(before)
    fake.fail('cancelled')
    fake.leave()
    t.match(fake.seen, { written: before, ends: 0, started: 1, refusal: undefined, failures: [] })
    t.equal(fake.clock.countRunning(), 0)
  }
})

t.test('a client that was gone before the stream began leaves nothing open', async (t) => {
  const fake = openFakeStream({ hasLeft: true })
  t.equal(fake.isOpen(), false)
  fake.data(createdEvent)
  t.match(fake.seen, { heads: 0, started: 1, written: '' })
  t.equal(fake.clock.countRunning(), 0)
})
