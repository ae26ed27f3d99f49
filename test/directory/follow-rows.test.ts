import t, { type Test } from 'tap'
import { followRows } from '../../gateway/directory/follow-rows.ts'
import { until } from '../support/gateway.ts'

const monotonicMs = (): number => performance.now()

/** Follows rows that the test reads for it, at first with a proof that no change was missed. */
function follow(t: Test) {
  const stage = { reads: 0, failures: 0, isProven: true, isDown: false, isNeeded: true }
  const follower = followRows({
    read: async () => {
      stage.reads += 1
      if (stage.isDown) throw new Error('down')
    },
    knownAt: (readAtMs) => (stage.isProven && readAtMs > 0 ? monotonicMs() : readAtMs),
    isNeeded: () => stage.isNeeded,
    monotonicMs,
    onFailed: () => {
      stage.failures += 1
    },
  })
  t.teardown(follower.stop)
  return { stage, ...follower }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

t.test('rows are read at the start, and no more while no change can be missed', async (t) => {
  const { stage } = follow(t)
  t.equal(stage.reads, 1)
  await pause(1_200)
  t.equal(stage.reads, 1)
})

t.test('rows that do not matter are not looked after, and are read once they do', async (t) => {
  const { stage } = follow(t)
  await pause(10)
  stage.isNeeded = false
  stage.isProven = false
  await pause(1_200)
  t.equal(stage.reads, 1)
  stage.isNeeded = true
  await until(() => stage.reads === 2, 'the read', 3_000)
})

t.test('a flood of notifications costs few reads, and its last one is followed by one', async (t) => {
  const { stage, look } = follow(t)
  const untilMs = monotonicMs() + 500
  let readsAtLast = 0
  while (monotonicMs() < untilMs) {
    for (let count = 0; count < 100; count++) look()
    readsAtLast = stage.reads
    await pause(1)
  }
  t.ok(stage.reads <= 13, `${stage.reads} reads`)
  await until(() => stage.reads > readsAtLast, 'the last read')
})

t.test('while changes may be missed, rows are read within the second', async (t) => {
  const { stage } = follow(t)
  await pause(10)
  stage.isProven = false
  await until(() => stage.reads >= 3, 'two more reads', 3_000)
})

t.test('a read that fails is made again, and a follower that has stopped reads no more', async (t) => {
  const { stage, stop } = follow(t)
  await pause(10)
  stage.isDown = true
  stage.isProven = false
  await until(() => stage.failures >= 2, 'two failures', 3_000)
  stage.isDown = false
  stage.isProven = true
  const { reads } = stage
  await until(() => stage.reads > reads, 'the read after the outage', 3_000)
  stop()
  const last = stage.reads
  await pause(500)
  t.equal(stage.reads, last)
})
