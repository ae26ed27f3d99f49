// In a process of its own: it measures memory.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { openWith, tokenOf } from '../../support/open-exchange.ts'
import { createRecheckFixture } from '../../support/recheck-fixture.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

const readHeap = (): number => {
  collect()
  collect()
  return process.memoryUsage().heapUsed
}

/** V8 lets go of code that has not run during some collections, and of what the last turn still held. */
const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 12; turn++) {
    await new Promise(setImmediate)
    collect()
  }
}

const rounds = 5

// `npm run bench:open-cost` measures a gateway: with the callers, and without what is here alone.
t.test('an open exchange costs at most 230 bytes, and no timer', async (t) => {
  const count = 10_000
  const { setTimeout: usualTimeout, setInterval: usualInterval } = globalThis
  t.teardown(() => Object.assign(globalThis, { setTimeout: usualTimeout, setInterval: usualInterval }))
  let timers = 0
  const counted = <Start extends (...args: never[]) => unknown>(start: Start): Start =>
    ((...args: never[]) => {
      timers += 1
      return start(...args)
    }) as Start // the same, counted
  const measured: number[] = []
  for (let round = 0; round < rounds; round++) {
    const { recheck, state } = createRecheckFixture(t)
    const openings = Array.from({ length: count }, (_, index) => openWith(tokenOf(index + 1), state.table, {}))
    await settle()
    Object.assign(globalThis, { setTimeout: counted(usualTimeout), setInterval: counted(usualInterval) })
    const before = readHeap()
    for (const opening of openings) recheck.open(opening, 0)
    measured.push((readHeap() - before) / count)
    Object.assign(globalThis, { setTimeout: usualTimeout, setInterval: usualInterval })
    t.equal(recheck.count, count)
  }
  t.equal(timers, 0)
  // Other work of this process can only add to a round, so the least of them is the exchanges' own.
  const bytes = Math.min(...measured)
  t.ok(bytes > 100 && bytes <= 230, `${measured.join(', ')} bytes each`)
})
