import t from 'tap'
import { GatewayError } from '../../../gateway/base/errors/gateway-error.ts'
import { render } from '../../../gateway/base/errors/render.ts'
import { readToldError } from '../../../gateway/stages/relay/told-error.ts'
import { chatChunk, createdEvent, parseEvents } from '../../support/event-streams.ts'
import { type FakeStream, openFakeStream } from '../../support/fake-stream.ts'

const own = { message: 'Too long.', type: 'invalid_request_error', code: 'context_length_exceeded' }
const json = JSON.stringify({ error: own })
const pretty = JSON.stringify({ error: own }, null, 2)

const endings: Readonly<Record<string, (fake: FakeStream) => void>> = {
  'a proven end': (fake) => fake.end('framed'),
  'the end of its connection': (fake) => fake.end('closed'),
  'a break': (fake) => fake.fail('protocol-error'),
  'a silence': (fake) => fake.fail('timeout'),
}

const texts: Readonly<Record<string, string>> = {
  'without a line end': json,
  'with a line end': `${json}\r\n`,
  'with a blank line': `${json}\n\n`,
  'in many lines': pretty,
  'in many lines with blank ones': pretty.replaceAll('\n', '\n\n'),
  'behind comments': `: ping\n\n: ping\n${json}`,
  'as an event without its blank line': `data: ${json}`,
  'in a list': `[${json}]`,
}

for (const [how, end] of Object.entries(endings))
  for (const [where, text] of Object.entries(texts))
    t.test(`an error ${where} keeps message, type and code at ${how}`, async (t) => {
      const early = openFakeStream()
      early.data(text)
      end(early)
      t.ok(early.seen.refusal instanceof GatewayError)
      const { status, body } = render(early.seen.refusal as GatewayError, 'model', 'r')
      t.equal(status, 503)
      t.same(JSON.parse(body), { error: own })
      const late = openFakeStream()
      late.data(createdEvent + text)
      end(late)
      const { type, response } = JSON.parse(parseEvents(Buffer.from(late.seen.written, 'latin1')).at(-1)?.data ?? '{}')
      t.equal(type, 'response.failed')
      t.match(response.error, own)
      for (const ends of ['marker', 'finishReason'] as const) {
        const chat = openFakeStream({ kind: 'chat', ends })
        chat.data(chatChunk + text)
        end(chat)
        const { error } = JSON.parse(parseEvents(Buffer.from(chat.seen.written, 'latin1')).at(-1)?.data ?? '{}')
        t.match(error, { ...own, x_service_error_code: String }, ends)
      }
    })

t.test('a byte order mark before an error hides it at no end', async (t) => {
  for (const end of Object.values(endings))
    for (const text of Object.values(texts))
      for (const ends of ['marker', 'finishReason'] as const) {
        const fake = openFakeStream({ kind: 'chat', ends })
        fake.data(`\xef\xbb\xbf${text}`)
        end(fake)
        t.ok(fake.seen.refusal instanceof GatewayError, JSON.stringify(text))
        t.same(JSON.parse(render(fake.seen.refusal as GatewayError, 'model', 'r').body), { error: own }, ends)
      }
})

t.test('an end of the gateway’s own tells its own cause', async (t) => {
  for (const end of [
    (fake: FakeStream) => fake.stream.drain(),
    (fake: FakeStream) => fake.stream.endAccess('access_revoked', undefined),
  ]) {
    const fake = openFakeStream()
    fake.data(json)
    end(fake)
    const { body } = render(fake.seen.refusal as GatewayError, 'model', 'r')
    t.equal(body.includes('Too long'), false)
  }
})

t.test('an error before an event that did come is not that of the end', async (t) => {
  const fake = openFakeStream()
  fake.data(`${json}\n\n${createdEvent}`)
  fake.end('framed')
  t.equal(fake.seen.written.slice(json.length + createdEvent.length).includes('Too long'), false)
})

t.test('the forms of known servers are read, and no other text', async (t) => {
  const read = (value: unknown) => readToldError(Buffer.from(JSON.stringify(value)))
  t.same(read({ error: { message: 'm', type: 'BadRequestError', param: null, code: 400 } }), {
    message: 'm',
    type: 'BadRequestError',
    code: 400,
  })
  t.same(read({ object: 'error', message: 'm', type: 't', code: null }), { message: 'm', type: 't', code: null })
  t.same(read({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }), {
    message: 'Overloaded',
    type: 'overloaded_error',
  })
  t.same(read({ error: 'model not found' }), { message: 'model not found' })
  t.same(read({ error: 'too long', error_type: 'validation' }), { message: 'too long', type: 'validation' })
  t.same(read([{ error: { message: 'm', code: 429 } }]), { message: 'm', code: 429 })
  t.same(read({ detail: 'Not Found' }), { message: 'Not Found' })
  t.same(read({ detail: own }), own)
  t.same(read({ detail: [{ loc: ['body'], msg: 'missing', type: 'v' }] }), { message: 'missing', type: 'v' })
  for (const value of [
    {},
    [],
    null,
    'x',
    { error: {} },
    { error: null },
    { error: { message: 7 } },
    { message: 'm' },
    [[own]],
  ])
    t.equal(read(value), undefined)
  t.equal(readToldError(Buffer.from('{"error":{"message":"m"')), undefined)
  t.equal(readToldError(Buffer.from(JSON.stringify({ error: 'x'.repeat(70_000) }))), undefined)
})
