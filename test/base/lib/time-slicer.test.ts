import t, { type Test } from 'tap'
import { TimeSlicer } from '../../../gateway/base/lib/time-slicer.ts'

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Bursts of which every item takes 0.6 ms, on a clock that shows nothing else unless it is set. */
function start(t: Test) {
  const done: number[] = []
  const clock = { ms: 0 }
  const bursts = new TimeSlicer<number>(
    (item) => {
      done.push(item)
      clock.ms += 0.6
    },
    undefined,
    () => clock.ms,
  )
  t.teardown(() => bursts.clear())
  return { bursts, done, clock }
}

t.test('a burst is worked off in its order, some of it in each turn', async (t) => {
  const { bursts, done } = start(t)
  for (let item = 1; item <= 5; item++) bursts.add(item)
  t.same(done, [1, 2], 'no later than now, as long as the turn has time')
  await nextTurn()
  t.same(done, [1, 2, 3, 4])
  bursts.add(6)
  t.same(done, [1, 2, 3, 4], 'what comes later is not done sooner')
  await nextTurn()
  t.same(done, [1, 2, 3, 4, 5, 6])
  await nextTurn()
  bursts.add(7)
  t.equal(done.at(-1), 7)
})

t.test('a burst has the same part of each turn, whatever other work takes', async (t) => {
  const { bursts, done, clock } = start(t)
  for (let item = 1; item <= 8; item++) bursts.add(item)
  for (let turn = 1; turn <= 3; turn++) {
    clock.ms += 20
    await nextTurn()
    t.equal(done.length, 2 + 2 * turn)
  }
})

t.test('work that has not begun can be taken back', async (t) => {
  const { bursts, done } = start(t)
  for (const item of [1, 2, 3, 4]) bursts.add(item)
  t.same(bursts.clear(), [3, 4])
  await nextTurn()
  await nextTurn()
  t.same(done, [1, 2])
})

t.test('a part may follow the turn before it, and one item is always done', async (t) => {
  const done: number[] = []
  const seen: number[] = []
  const clock = { ms: 0 }
  const work = (item: number): void => {
    done.push(item)
    clock.ms += 0.6
  }
  const bursts = new TimeSlicer<number>(
    work,
    undefined,
    () => clock.ms,
    (turnMs) => {
      seen.push(Math.round(turnMs))
      return turnMs / 20
    },
  )
  t.teardown(() => bursts.clear())
  for (let item = 1; item <= 9; item++) bursts.add(item)
  t.same(done, [], 'a part of nothing is nothing')
  await nextTurn()
  t.same(done, [1])
  clock.ms += 39.4
  await nextTurn()
  t.same(done, [1, 2, 3, 4, 5], 'a twentieth of 40 ms')
  t.same(seen, [0, 0, 40])
})
