import t, { type Test } from 'tap'
import {
  type LinkEvents,
  type ListeningConnection,
  maintainConnection,
} from '../../gateway/directory/maintain-connection.ts'
import { startFairClock } from '../support/fair-clock.ts'
import { until } from '../support/gateway.ts'

type Settle = Readonly<{ resolve: () => void; reject: (error: unknown) => void }>

/** An attempt to connect, in the test's hand. */
type Attempt = Readonly<{
  atMs: number
  events: LinkEvents
  succeed: () => void
  fail: (error: Error) => void
  /** Questions that are not answered yet. */
  questions: Settle[]
}>

/** Something that keeps a fake connection, and a diary of what happened in which order. */
function keep(t: Test) {
  const attempts: Attempt[] = []
  const diary: string[] = []
  const proofs: number[] = []
  const losses: unknown[] = []
  let clockMs = 1_000
  const connect = (events: LinkEvents): Promise<ListeningConnection> =>
    new Promise((resolve, reject) => {
      const questions: Settle[] = []
      const link: ListeningConnection = {
        probe: () => {
          diary.push('asked')
          return new Promise((resolve, reject) => questions.push({ resolve, reject }))
        },
        close: () => diary.push('closed'),
      }
      diary.push('connecting')
      attempts.push({ atMs: performance.now(), events, succeed: () => resolve(link), fail: reject, questions })
    })
  const source = maintainConnection(connect, {
    monotonicMs: () => clockMs,
    handlers: {
      onConnected: () => diary.push('connected'),
      onSynced: (atMs) => {
        diary.push('proof')
        proofs.push(atMs)
      },
      onLost: (error) => {
        diary.push('lost')
        losses.push(error)
      },
    },
  })
  t.teardown(() => source.stop())
  /** The newest attempt, or the one of this number once there is one. */
  const attempt = async (number = attempts.length): Promise<Attempt> => {
    await until(() => attempts.length >= number, `attempt ${number}`)
    return attempts[number - 1] as Attempt // it has just been counted
  }
  const question = async ({ questions }: Attempt): Promise<Settle> => {
    await until(() => questions.length > 0, 'a question')
    return questions.shift() as Settle // as above
  }
  return {
    ...source,
    attempts,
    diary,
    proofs,
    losses,
    attempt,
    question,
    pass: (ms: number) => {
      clockMs += ms
    },
    /** Connects and answers the first question. */
    rise: async (): Promise<Attempt> => {
      const current = await attempt()
      current.succeed()
      const count = proofs.length
      const { resolve } = await question(current)
      resolve()
      await until(() => proofs.length > count, 'a proof')
      return current
    },
  }
}

const moment = (ms = 20): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const broken = new Error('broken')

t.test(
  'a connection is up from the first proof on, and says that it is connected before it asks for one',
  async (t) => {
    const { attempt, question, diary, isUp } = keep(t)
    const current = await attempt()
    t.notOk(isUp())
    current.succeed()
    const { resolve } = await question(current)
    t.notOk(isUp(), 'an unanswered question proves nothing')
    resolve()
    await until(isUp, 'the proof')
    t.same(diary, ['connecting', 'connected', 'asked', 'proof'])
  },
)

t.test('a proof speaks of the moment at which it was asked for', async (t) => {
  const { attempt, question, proofs, pass } = keep(t)
  const current = await attempt()
  current.succeed()
  const first = await question(current)
  pass(400)
  first.resolve()
  await until(() => proofs.length === 1, 'a proof')
  const second = await question(current)
  pass(300)
  second.resolve()
  await until(() => proofs.length === 2, 'another proof')
  t.same(proofs, [1_000, 1_400])
})

t.test('a connection asks again and again, one question at a time, and leaves no signal behind', async (t) => {
  const made = [t.capture(AbortSignal, 'any', AbortSignal.any), t.capture(AbortSignal, 'timeout', AbortSignal.timeout)]
  const { rise, question, proofs } = keep(t)
  const current = await rise()
  for (let count = 2; count <= 3; count++) {
    const { resolve } = await question(current)
    await moment()
    t.equal(current.questions.length, 0)
    resolve()
    await until(() => proofs.length === count, 'a proof')
  }
  // Node 20 keeps a trace of each such signal for as long as the signals it was made from.
  t.same(
    made.map((calls) => calls().length),
    [0, 0],
  )
})

t.test('a loss between two questions is told with its cause, and followed by another connection', async (t) => {
  const { rise, attempt, diary, losses, isUp } = keep(t)
  const first = await rise()
  first.events.onBroken(broken)
  await until(() => losses.length > 0, 'the loss')
  t.notOk(isUp())
  t.same(losses, [broken])
  await attempt(2)
  await rise()
  t.ok(isUp())
  const second = ['connecting', 'connected', 'asked', 'proof']
  t.same(diary, ['connecting', 'connected', 'asked', 'proof', 'closed', 'lost', ...second])
})

t.test('a loss during a question is told with what broke the link, and a late answer proves nothing', async (t) => {
  for (const settle of ['resolve', 'reject'] as const) {
    const { attempt, question, losses, proofs, diary } = keep(t)
    const current = await attempt()
    current.succeed()
    const pending = await question(current)
    current.events.onBroken(broken)
    current.events.onBroken(new Error('and its echo'))
    await until(() => losses.length > 0, 'the loss')
    pending[settle](new Error('too late'))
    await moment()
    t.same([losses, proofs], [[broken], []])
    t.equal(diary.filter((entry) => entry === 'closed').length, 1)
  }
})

t.test('a question that fails is a loss', async (t) => {
  const { attempt, question, losses, isUp } = keep(t)
  const current = await attempt()
  current.succeed()
  const { reject } = await question(current)
  reject(broken)
  await until(() => losses.length > 0, 'the loss')
  t.same(losses, [broken])
  t.notOk(isUp())
})

t.test('a link that freezes is given up after a second', async (t) => {
  const { question, attempt, losses, isUp } = keep(t)
  const current = await attempt()
  current.succeed()
  await question(current)
  const askedAtMs = performance.now()
  await attempt(2)
  t.ok(performance.now() - askedAtMs > 900)
  t.match(losses, [/no answer/])
  t.notOk(isUp())
})

t.test('a link that breaks before its first question is a loss', async (t) => {
  const { attempt, losses, proofs } = keep(t)
  const current = await attempt()
  current.succeed()
  current.events.onBroken(broken)
  await until(() => losses.length > 0, 'the loss')
  t.same([losses, proofs], [[broken], []])
})

t.test('a connection that cannot be made is told with what broke it, and once, however often it fails', async (t) => {
  const { attempt, losses, rise } = keep(t)
  const first = await attempt(1)
  first.events.onBroken(broken)
  first.fail(new Error('it was closed'))
  const second = await attempt(2)
  second.fail(new Error('refused'))
  const third = await attempt(3)
  t.same(losses, [broken])
  // Connected, but without a proof: this is the same loss still.
  third.succeed()
  third.events.onBroken(new Error('again'))
  await attempt(4)
  t.equal(losses.length, 1)
  const { events } = await rise()
  events.onBroken(new Error('another loss'))
  await until(() => losses.length === 2, 'the next loss')
  t.match(losses[1], /another loss/)
})

t.test('the pauses between attempts grow, and begin anew after a connection that lasted', async (t) => {
  const { attempt, attempts, rise, pass, proofs } = keep(t)
  for (const number of [1, 2, 3, 4]) (await attempt(number)).fail(broken)
  await attempt(5)
  const gaps = attempts.slice(1).map(({ atMs }, index) => atMs - (attempts[index]?.atMs ?? 0))
  // A timer may be a moment early, and late by any time.
  for (const [index, leastMs] of [50, 100, 200, 400].entries())
    t.ok((gaps[index] ?? 0) > leastMs - 5, `pause ${index + 1}: ${gaps[index]} ms`)
  const steady = await rise()
  pass(5_001)
  const passedMs = startFairClock(t)
  steady.events.onBroken(broken)
  await attempt(6)
  t.ok(passedMs() < 700, 'without it the pause would be 800 ms')
  t.equal(proofs.length, 1)
})

const stopped = ['connecting', 'asking', 'waiting', 'pausing'] as const

for (const state of stopped)
  t.test(
    `a connection that is stopped while ${state} ends at once, tells no loss and tries nothing more`,
    async (t) => {
      const { attempt, attempts, question, rise, stop, diary, isUp } = keep(t)
      const current = await attempt()
      if (state === 'asking') {
        current.succeed()
        await question(current)
      }
      if (state === 'waiting') await rise()
      if (state === 'pausing') {
        current.fail(broken)
        await until(() => diary.includes('lost'), 'the loss')
      }
      const before = diary.filter((entry) => entry !== 'closed')
      await Promise.all([stop(), stop()])
      // A connection that comes too late is closed, unused.
      current.succeed()
      current.events.onBroken(broken)
      await moment(120)
      t.same(
        diary.filter((entry) => entry !== 'closed'),
        before,
      )
      t.equal(diary.filter((entry) => entry === 'closed').length, state === 'pausing' ? 0 : 1)
      t.equal(attempts.length, 1)
      t.notOk(isUp())
    },
  )

t.test('no timer of a connection keeps a process alive', async (t) => {
  const countTimers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const timersBefore = countTimers()
  const waiting = keep(t)
  await waiting.rise()
  const asking = keep(t)
  const current = await asking.attempt()
  current.succeed()
  await asking.question(current)
  const pausing = keep(t)
  const failing = await pausing.attempt()
  failing.fail(broken)
  await until(() => pausing.losses.length > 0, 'the loss')
  t.equal(countTimers(), timersBefore)
})
