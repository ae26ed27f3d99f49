// In a process of its own: it measures memory.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { openWith, tokenOf } from '../support/open-exchange.ts'
import { stageRecheck } from '../support/recheck-stage.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

const readHeap = (): number => {
  collect()
  collect()
  return process.memoryUsage().heapUsed
}

// `npm run bench:open-cost` measures a gateway: with the callers, and without what is here alone.
t.test('an open exchange costs at most 250 bytes, and no timer', async (t) => {
  const { recheck, stage } = stageRecheck(t)
  const count = 10_000
  const openings = Array.from({ length: count }, (_, index) => openWith(tokenOf(index + 1), stage.table, {}))
  const { setTimeout: usualTimeout, setInterval: usualInterval } = globalThis
  let timers = 0
  const counted = <Start extends (...args: never[]) => unknown>(start: Start): Start =>
    ((...args: never[]) => {
      timers += 1
      return start(...args)
    }) as Start // the same, counted
  Object.assign(globalThis, { setTimeout: counted(usualTimeout), setInterval: counted(usualInterval) })
  t.teardown(() => Object.assign(globalThis, { setTimeout: usualTimeout, setInterval: usualInterval }))
  const before = readHeap()
  for (const opening of openings) recheck.open(opening, 0)
  const bytes = (readHeap() - before) / count
  t.equal(timers, 0)
  t.equal(recheck.count, count)
  t.ok(bytes > 100 && bytes <= 250, `${bytes} bytes each`)
})
