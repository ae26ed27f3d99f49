import t from 'tap'
import { Deadline } from '../../../gateway/base/lib/deadline.ts'
import { until } from '../../support/gateway.ts'

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

t.test('a deadline fires once, and not before its time', async (t) => {
  const deadline = new Deadline()
  const startedMs = performance.now()
  const fires: number[] = []
  deadline.set(50, undefined, () => fires.push(performance.now() - startedMs))
  await until(() => fires.length > 0, 'the deadline')
  t.ok((fires[0] ?? 0) >= 49, `after ${fires[0]} ms`)
  await wait(60)
  t.equal(fires.length, 1)
})

t.test('a deadline that is set again fires then, whether it is later or sooner', async (t) => {
  for (const [firstMs, thenMs] of [
    [20, 120],
    [10_000, 30],
  ] as const) {
    const deadline = new Deadline()
    const fired: string[] = []
    const startedMs = performance.now()
    deadline.set(firstMs, undefined, () => fired.push('first'))
    deadline.set(thenMs, undefined, () => fired.push('then'))
    await until(() => fired.length > 0, 'the deadline')
    t.same(fired, ['then'])
    t.ok(performance.now() - startedMs >= thenMs - 1)
    deadline.discard()
  }
})

t.test('a stopped or discarded deadline does not fire, and may be set again', async (t) => {
  const deadline = new Deadline()
  const fired: string[] = []
  deadline.set(20, undefined, () => fired.push('stopped'))
  deadline.stop()
  const other = new Deadline()
  other.set(20, undefined, () => fired.push('discarded'))
  other.discard()
  await wait(60)
  t.same(fired, [])
  deadline.set(10, undefined, () => fired.push('again'))
  await until(() => fired.length > 0, 'the deadline')
  t.same(fired, ['again'])
})

t.test('a deadline that discards and moves others as it fires loses none', async (t) => {
  const [first, gone, moved, last] = [new Deadline(), new Deadline(), new Deadline(), new Deadline()]
  const fired: string[] = []
  const startedMs = performance.now()
  // All four are due at once, and so stand side by side.
  first.set(40, undefined, () => {
    fired.push('first')
    gone.discard()
    moved.set(40, undefined, () => fired.push('moved'))
  })
  gone.set(40, undefined, () => fired.push('gone'))
  moved.set(40, undefined, () => fired.push('too soon'))
  last.set(40, undefined, () => fired.push('last'))
  await until(() => fired.includes('moved') && fired.includes('last'), 'the deadlines')
  t.same(fired.toSorted(), ['first', 'last', 'moved'])
  t.ok(performance.now() - startedMs >= 79)
})
