import t from 'tap'
import type { JsonValue } from '../../support/client.ts'
import { cutEverywhere, parseEvents } from '../../support/event-streams.ts'
import { type FakeStream, openFakeStream } from '../../support/fake-stream.ts'
import { testVectors } from '../../support/vectors.ts'

const terminal = '\n\ndata: {"type":"response.completed"}\n\n'

/** The id stays in force for later events: the gateway's own event has the latest one too. */
const withoutId = ({ event, data }: JsonValue) => ({ event, data })

/** Sends these pieces through, and gives what the client saw. */
function pass(pieces: readonly Buffer[]): FakeStream {
  const fake = openFakeStream({ eventLimitBytes: 100_000 })
  for (const piece of pieces) fake.data(piece)
  fake.end()
  return fake
}

testVectors(t, 'sse/cases.json', 'published streams pass unchanged, however they are cut', (t, { cases }) => {
  t.ok(cases.length > 50)
  for (const { id, chunks_b64, expected } of cases) {
    const bytes = Buffer.concat(chunks_b64.map((chunk: string) => Buffer.from(chunk, 'base64')))
    const events = expected.map(({ event, data, id }: JsonValue) => ({
      ...(event && { event }),
      data,
      ...(id && { id }),
    }))
    t.same(parseEvents(bytes), events, `${id}: the second opinion is the published one`)
    const whole = Buffer.concat([bytes, Buffer.from(terminal)])
    for (const pieces of [chunks_b64.map((chunk: string) => Buffer.from(chunk, 'base64')), ...cutEverywhere(bytes)]) {
      const closed = pass([...pieces, Buffer.from(terminal)])
      if (closed.seen.written !== whole.toString('latin1')) t.fail(`${id}: not byte for byte`, { pieces })
      const cut = pass(pieces)
      const seen = parseEvents(Buffer.from(cut.seen.written, 'latin1'))
      const { type } = JSON.parse(seen.at(-1)?.data ?? '{}')
      if (type !== 'response.failed') t.fail(`${id}: no failure at its end`, { pieces })
      if (JSON.stringify(seen.slice(0, -1).map(withoutId)) !== JSON.stringify(events.map(withoutId)))
        t.fail(`${id}: other events than published`, { pieces, seen })
    }
  }
})
