import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startTimer } from '../../../gateway/stages/relay/timer.ts'
import { until } from '../../support/gateway.ts'

const ms = 40

/** A timer, and when it rang, in milliseconds from its start. */
function start() {
  const startedMs = performance.now()
  const rangMs: number[] = []
  const passedMs = () => performance.now() - startedMs
  const timer = startTimer(ms, () => rangMs.push(passedMs()), undefined)
  const ringing = (count: number) => until(() => rangMs.length === count, 'the timer')
  return { timer, rangMs, ringing, passedMs }
}

t.test('a timer calls back once, and not before its time', async (t) => {
  const { rangMs, ringing } = start()
  await ringing(1)
  t.ok((rangMs[0] ?? 0) >= ms, String(rangMs))
  await sleep(2 * ms)
  t.equal(rangMs.length, 1)
})

t.test('each restart begins its time anew', async (t) => {
  const { timer, rangMs, ringing, passedMs } = start()
  let restartedMs = 0
  // On a machine that stands still for longer than the time it rings between two restarts, and rightly.
  while (restartedMs < 2.5 * ms && rangMs.length === 0) {
    restartedMs = passedMs()
    timer.restart()
    await sleep(ms / 8)
  }
  await ringing(1)
  t.ok((rangMs[0] ?? 0) >= restartedMs + ms, `${rangMs} after ${restartedMs}`)
})

t.test('after its time a restart calls back once more', async (t) => {
  const { timer, rangMs, ringing, passedMs } = start()
  await ringing(1)
  const restartedMs = passedMs()
  timer.restart()
  await ringing(2)
  t.ok((rangMs[1] ?? 0) >= restartedMs + ms, `${rangMs} after ${restartedMs}`)
})

t.test('a stopped timer does not call back, whatever comes then', async (t) => {
  const { timer, rangMs } = start()
  timer.restart()
  timer.stop()
  timer.restart()
  await sleep(3 * ms)
  t.same(rangMs, [])
})

t.test('a timer stopped after it fired stays silent', async (t) => {
  const { timer, rangMs, ringing } = start()
  await ringing(1)
  timer.stop()
  timer.restart()
  await sleep(3 * ms)
  t.equal(rangMs.length, 1)
})

t.test('a thousand streams share a few timers of Node', (t) => {
  const { setTimeout: original } = globalThis
  let started = 0
  const counting = (...values: Parameters<typeof setTimeout>) => {
    started += 1
    return original(...values)
  }
  globalThis.setTimeout = Object.assign(counting, original)
  const timers = Array.from({ length: 1_000 }, () => startTimer(15_000, () => undefined, undefined))
  for (const timer of timers) timer.restart()
  globalThis.setTimeout = original
  for (const timer of timers) timer.stop()
  // On a machine that stands still meanwhile, each eighth of a second has one.
  t.ok(started < 20, `${started} timers`)
  t.end()
})
