import t from 'tap'
import { chatChunk, completedEvent, createdEvent, deltaEvent, parseEvents } from '../../support/event-streams.ts'
import { type FakeOptions, type FakeStream, openFakeStream } from '../../support/fake-stream.ts'

const ends: Readonly<Record<string, readonly [end: (fake: FakeStream) => void, code: string]>> = {
  'an end': [(fake) => fake.end(), 'worker_disconnected'],
  'a break': [(fake) => fake.fail('protocol-error'), 'worker_disconnected'],
  'a time-out': [(fake) => fake.fail('timeout'), 'upstream_timeout'],
  'a drain of the gateway': [(fake) => fake.stream.drain(), 'gateway_draining'],
}

const streams: readonly (readonly [name: string, options: FakeOptions, text: string])[] = [
  ['Responses with LF', {}, `${createdEvent + deltaEvent(1)}: ping\n\n${deltaEvent(2)}${completedEvent}`],
  [
    'Responses with CR LF',
    {},
    (createdEvent + deltaEvent(1) + deltaEvent(2) + completedEvent).replaceAll('\n', '\r\n'),
  ],
  ['Responses with CR', {}, (createdEvent + deltaEvent(1) + completedEvent).replaceAll('\n', '\r')],
  ['chat', { kind: 'chat' }, `${chatChunk}${chatChunk}data: [DONE]\n\n`],
]
for (const [name, options, text] of streams)
  for (const [how, [end, code]] of Object.entries(ends))
    t.test(`${how} at every byte of ${name}`, async (t) => {
      // A block ends where its blank line does; a lone CR ends one as well.
      const blockEnds = [...text.matchAll(/\r\n\r\n?|\n\n|\r\r/g)].map(({ index, 0: { length } }) => index + length)
      const lastEnd = blockEnds.at(-1) ?? 0
      const terminalFrom = text.startsWith('\r\n', lastEnd - 2) ? lastEnd - 1 : lastEnd
      for (let cut = 0; cut <= text.length; cut++) {
        const fake = openFakeStream(options)
        for (let at = 0; at < cut; at += 7) fake.data(text.slice(at, Math.min(cut, at + 7)))
        end(fake)
        const problem = findProblem(fake, text, cut, terminalFrom, code)
        if (problem !== undefined) t.fail(`cut at ${cut}: ${problem}`, { written: fake.seen.written })
      }
    })

/** The mistake in the client's view of a cut stream, if there is one. */
function findProblem({ seen }: FakeStream, text: string, cut: number, terminalFrom: number, code: string) {
  const before = parseEvents(Buffer.from(text.slice(0, cut), 'latin1'))
  const after = parseEvents(Buffer.from(seen.written, 'latin1'))
  if (before.length === 0) return seen.heads === 0 && seen.refusal ? undefined : 'no refusal'
  if (seen.ends !== 1) return `${seen.ends} ends`
  if (cut >= terminalFrom) return seen.written === text.slice(0, cut) ? undefined : 'not what the upstream sent'
  if (JSON.stringify(after.slice(0, -1)) !== JSON.stringify(before)) return 'not the whole events of the upstream'
  const failed = JSON.parse(after.at(-1)?.data ?? '{}')
  if (failed.type !== 'response.failed' || failed.response.metadata.x_service_error_code !== code) return 'no failure'
  const last = JSON.parse(before.at(-1)?.data ?? '{}')
  const sequence = last.sequence_number === undefined ? 0 : last.sequence_number + 1
  if (failed.sequence_number !== sequence) return `sequence number ${failed.sequence_number}`
  if (failed.response.id !== (last.id ?? 'resp_1')) return `id ${failed.response.id}`
  return seen.failures.length === 1 ? undefined : 'not exactly one failure'
}
