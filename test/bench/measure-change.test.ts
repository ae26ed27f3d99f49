import t from 'tap'
import { type Effect, giveUpMs, measureChange } from '../../bench/measure-change.ts'

/** The answer of a gateway at a time, when the change was committed at `committedAtMs`. */
type Temper = (nowMs: number, committedAtMs: number) => boolean

const requestMs = 4
const changeMs = 10

/** Measures against a clock that goes on only while a caller waits. */
async function measure(isAccepted: Temper): Promise<Effect> {
  const clock = startClock()
  let committedAtMs = Number.POSITIVE_INFINITY
  return measureChange({
    nowMs: clock.nowMs,
    ask: async () => {
      await clock.pass(requestMs)
      return isAccepted(clock.nowMs(), committedAtMs)
    },
    change: async () => {
      await clock.pass(changeMs)
      committedAtMs = clock.nowMs()
    },
  })
}

function startClock() {
  let nowMs = 0
  const waiting: { atMs: number; wake: () => void }[] = []
  const advance = (): void => {
    waiting.sort((left, right) => left.atMs - right.atMs)
    const next = waiting.shift()
    if (!next) return
    nowMs = next.atMs
    next.wake()
    setImmediate(advance)
  }
  setImmediate(advance)
  return {
    nowMs: () => nowMs,
    pass: (ms: number) => new Promise<void>((wake) => waiting.push({ atMs: nowMs + ms, wake })),
  }
}

t.test('a change that is felt at once took no time', async (t) => {
  const effect = await measure((nowMs, committedAtMs) => nowMs < committedAtMs)
  t.same(effect, { tookMs: 0, acceptedAfter: 0 })
})

t.test('a change that is felt late took from its commit to the start of the first refused request', async (t) => {
  const effect = await measure((nowMs, committedAtMs) => nowMs < committedAtMs + 300)
  t.equal(effect.acceptedAfter, 0)
  t.ok(effect.tookMs > 300 - 2 * requestMs && effect.tookMs <= 300, `${effect.tookMs} ms`)
})

t.test('a change that is never felt is given up', async (t) => {
  t.same(await measure(() => true), { tookMs: giveUpMs, acceptedAfter: 0 })
})

t.test('a request that is accepted after the first refusal is counted', async (t) => {
  let refusals = 0
  const { acceptedAfter } = await measure((nowMs, committedAtMs) => {
    if (nowMs < committedAtMs) return true
    refusals += 1
    return refusals > 6 && refusals <= 9
  })
  t.equal(acceptedAfter, 3)
})

t.test('a request that was under way at the first refusal is not counted', async (t) => {
  let answers = 0
  const { acceptedAfter } = await measure((nowMs, committedAtMs) => {
    if (nowMs < committedAtMs) return true
    answers += 1
    return answers === 2
  })
  t.ok(answers > 2)
  t.equal(acceptedAfter, 0)
})

t.test('a failure of either side ends the measurement', async (t) => {
  const nowMs = (): number => 0
  const pause = (): Promise<void> => new Promise(setImmediate)
  const broken = async (): Promise<never> => {
    await pause()
    throw new Error('broken')
  }
  const accept = async (): Promise<boolean> => {
    await pause()
    return true
  }
  await t.rejects(measureChange({ ask: accept, change: broken, nowMs }), /broken/)
  await t.rejects(measureChange({ ask: broken, change: pause, nowMs }), /broken/)
})
