import t, { type Test } from 'tap'
import { followRows } from '../../gateway/directory/follow-rows.ts'
import { until } from '../support/gateway.ts'

const monotonicMs = (): number => performance.now()

/** Follows rows that the test reads for it, at first with a proof that no change was missed. */
function follow(t: Test) {
  const state = { reads: 0, failures: 0, isProven: true, isDown: false, isNeeded: true }
  const follower = followRows({
    read: async () => {
      state.reads += 1
      if (state.isDown) throw new Error('down')
    },
    knownAt: (readAtMs) => (state.isProven && readAtMs > 0 ? monotonicMs() : readAtMs),
    isNeeded: () => state.isNeeded,
    monotonicMs,
    onFailed: () => {
      state.failures += 1
    },
  })
  t.teardown(follower.stop)
  return { state, ...follower }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

t.test('rows are read at the start, and no more while no change can be missed', async (t) => {
  const { state } = follow(t)
  t.equal(state.reads, 1)
  await pause(1_200)
  t.equal(state.reads, 1)
})

t.test('rows that do not matter are not looked after, and are read once they do', async (t) => {
  const { state } = follow(t)
  await pause(10)
  state.isNeeded = false
  state.isProven = false
  await pause(1_200)
  t.equal(state.reads, 1)
  state.isNeeded = true
  await until(() => state.reads === 2, 'the read', 3_000)
})

t.test('a flood of notifications costs few reads, and its last one is followed by one', async (t) => {
  const { state, look } = follow(t)
  const untilMs = monotonicMs() + 500
  let readsAtLast = 0
  while (monotonicMs() < untilMs) {
    for (let count = 0; count < 100; count++) look()
    readsAtLast = state.reads
    await pause(1)
  }
  t.ok(state.reads <= 13, `${state.reads} reads`)
  await until(() => state.reads > readsAtLast, 'the last read')
})

t.test('while changes may be missed, rows are read within the second', async (t) => {
  const { state } = follow(t)
  await pause(10)
  state.isProven = false
  await until(() => state.reads >= 3, 'two more reads', 3_000)
})

t.test('a read that fails is made again, and a follower that has stopped reads no more', async (t) => {
  const { state, stop } = follow(t)
  await pause(10)
  state.isDown = true
  state.isProven = false
  await until(() => state.failures >= 2, 'two failures', 3_000)
  state.isDown = false
  state.isProven = true
  const { reads } = state
  await until(() => state.reads > reads, 'the read after the outage', 3_000)
  stop()
  const last = state.reads
  await pause(500)
  t.equal(state.reads, last)
})
