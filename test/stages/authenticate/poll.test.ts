import t from 'tap'
import { EventFault } from '../../../gateway/base/errors/event-fault.ts'
import { GatewayError } from '../../../gateway/base/errors/gateway-error.ts'
import { pollForEvents } from '../../../gateway/listeners/signals/poll.ts'
import { type PollQuestion, readPollAnswer } from '../../../gateway/listeners/signals/poll-question.ts'

type Step = Readonly<{ sets?: Readonly<Record<string, unknown>>; fails?: true; takesMs?: number }>

/** Runs a poll against these responses on a clock of its own, and returns what it asked and how long it paused. */
async function run(
  steps: readonly Step[],
  take: (token: string, atMs: number) => void = () => undefined,
  random = 1,
  everyMs = 100,
) {
  let nowMs = 0
  const questions: PollQuestion[] = []
  const pauses: number[] = []
  const refused: string[] = []
  await pollForEvents({
    ...{ maxEvents: 10, returnImmediately: false, everyMs },
    ask: async (question) => {
      const step = steps[questions.length]
      questions.push(question)
      nowMs += step?.takesMs ?? 0
      if (step?.fails) throw new Error('no answer')
      return Object.entries(step?.sets ?? {})
    },
    createSender: () => ({ clientAddress: 'c', requestId: 'r' }),
    take: async (token) => take(token, nowMs),
    onRefused: ({ exactCause }) => void refused.push(exactCause),
    onAsked: () => undefined,
    monotonicMs: () => nowMs,
    random: () => random,
    sleep: async (ms) => {
      pauses.push(ms)
      nowMs += ms
    },
    isStopped: () => questions.length >= steps.length,
  })
  return { questions, pauses, refused }
}

const failing = (count: number): readonly Step[] => Array.from({ length: count }, () => ({ fails: true }))

t.test('failures are followed by longer pauses, which differ from one replica to another', async (t) => {
  const { pauses } = await run(failing(8))
  t.same(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000])
  t.same((await run(failing(3), undefined, 0)).pauses, [500, 1_000, 2_000])
  const recovered = await run([...failing(3), {}, ...failing(1)])
  t.same(recovered.pauses, [1_000, 2_000, 4_000, 100, 1_000])
})

t.test('a poll without events is followed by one everyMs after its start', async (t) => {
  t.same((await run([{}, { takesMs: 30 }, { takesMs: 100 }, { takesMs: 9_000 }])).pauses, [100, 70])
})

t.test('replies follow at once, and are told again until they arrive', async (t) => {
  const take = (token: string): void => {
    if (token === 'bad') throw new EventFault('claims_forbidden')
  }
  const sets = { one: 'good', two: 'bad' }
  const { questions, pauses } = await run([{ sets }, { fails: true }, {}, {}], take)
  const replies = { ack: ['one'], setErrs: { two: { err: 'invalid_request' } } }
  t.match(questions, [{ maxEvents: 10 }, replies, replies, {}])
  t.notOk(questions[0]?.ack ?? questions[3]?.ack ?? questions[3]?.setErrs)
  t.same(pauses, [10, 1_000, 100, 100])
})

t.test('events that are refused come at a bounded rate, however many there are', async (t) => {
  const take = (token: string): void => {
    if (token === 'bad') throw new EventFault('event_malformed')
  }
  const page = (name: string, count: number, token: string) => ({
    sets: Object.fromEntries(Array.from({ length: count }, (_, index) => [`${name}${index}`, token])),
  })
  const bad = await run([page('a', 10, 'bad'), page('b', 10, 'bad'), page('c', 3, 'bad')], take)
  t.same(bad.pauses, [100, 100, 30])
  t.equal(bad.refused.length, 23)
  t.same((await run([page('a', 10, 'good'), page('b', 10, 'good')], take)).pauses, [], 'good ones follow at once')
})

t.test('an event that cannot be stored yet gets no reply, and is asked for again within five seconds', async (t) => {
  const take = (): void => {
    throw new GatewayError('directory_unavailable')
  }
  const sets = { one: 'x' }
  const { questions, pauses, refused } = await run([{ sets }, { sets }, { sets }, { sets }, { sets }], take)
  for (const { ack, setErrs } of questions) t.notOk(ack ?? setErrs)
  t.same(pauses, [1_000, 2_000, 4_000, 5_000, 5_000])
  t.equal(refused.length, 5)
})

t.test('a fault of the gateway itself costs no event', async (t) => {
  const take = (): void => {
    throw new TypeError('a bug')
  }
  const { questions } = await run([{ sets: { one: 'x' } }, {}], take)
  t.notOk(questions[1]?.ack ?? questions[1]?.setErrs)
})

t.test('an event of an unknown key waits a minute for it, and others do not wait for that event', async (t) => {
  let isKnown = false
  const take = (token: string): void => {
    if (token === 'early' && !isKnown) throw new GatewayError('unknown_key')
  }
  const early = { sets: { early: 'early' } }
  const both = { sets: { early: 'early', other: 'good' } }
  const patient = await run([early, both, early], take)
  t.match(patient.questions[2], { ack: ['other'] })
  t.notOk(patient.questions[2]?.setErrs)
  t.same(patient.refused, [])
  const refused = await run([early, { ...early, takesMs: 50_000 }, { ...early, takesMs: 10_000 }, {}], take)
  t.notOk(refused.questions[2]?.setErrs)
  t.match(refused.questions[3], { setErrs: { early: { err: 'invalid_key' } } })
  t.same(refused.refused, ['unknown_key'])
  isKnown = true
  t.match((await run([early, {}], take)).questions[1], { ack: ['early'] })
})

t.test('a transmitter that repeats itself slows its polls, and its events are not taken twice', async (t) => {
  let taken = 0
  const take = (token: string): void => {
    taken += 1
    if (token === 'bad') throw new EventFault('claims_forbidden')
  }
  const sets = { one: 'good', two: 'bad' }
  const { pauses, questions, refused } = await run([{ sets }, { sets }, { sets }, { sets }, { sets }], take)
  t.same(pauses, [10, 1_000, 2_000, 4_000, 5_000])
  t.equal(taken, 6, 'the good one once')
  t.same(refused, ['claims_forbidden'])
  for (const question of questions.slice(1)) t.match(question, { ack: ['one'], setErrs: { two: {} } })
  const changed = await run([{ sets: { one: 'a' } }, { sets: { one: 'b' } }], (token) => {
    if (token === 'b') taken = -1
  })
  t.equal(taken, -1, 'another token of the same id is not the same event')
  t.equal(changed.questions.length, 2)
})

t.test('a poll answer is taken only in the form of RFC 8936', async (t) => {
  const read = (text: string | Buffer) => readPollAnswer(Buffer.from(text), 'https://login.example/poll?secret=1')
  t.same(read('{"sets":{}}'), [])
  t.same(read('{"sets":{"a":"x","__proto__":7},"moreAvailable":true,"other":[]}'), [
    ['a', 'x'],
    ['__proto__', 7],
  ])
  for (const text of [
    ...['', 'x', 'null', '7', '[]', '{}', '{"sets":null}', '{"sets":[]}', '{"sets":"x"}', '{"sets":{}}x'],
    ...['{"sets":{},"sets":{}}', '{"sets":{"a":"x","a":"y"}}', '{"sets":{"a":"x","\\u0061":"y"}}'],
    `{"sets":{},"a":${'['.repeat(8)}${']'.repeat(8)}}`,
    Buffer.from([...Buffer.from('{"sets":{"'), 0xff, ...Buffer.from('":""}}')]),
  ])
    t.throws(() => read(text), { message: 'the response of https://login.example/poll is not one of RFC 8936' })
})
