import t from 'tap'
import { Deadline } from '../../../gateway/http/socket/deadline.ts'
import { until } from '../../support/gateway.ts'

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

t.test('an alarm rings once, and not before its time', async (t) => {
  const alarm = new Deadline()
  const startedMs = performance.now()
  const rings: number[] = []
  alarm.set(50, () => rings.push(performance.now() - startedMs))
  await until(() => rings.length > 0, 'the alarm')
  t.ok((rings[0] ?? 0) >= 49, `after ${rings[0]} ms`)
  await wait(60)
  t.equal(rings.length, 1)
})

t.test('what is set anew rings then, whether it is later or sooner', async (t) => {
  for (const [firstMs, thenMs] of [
    [20, 120],
    [10_000, 30],
  ] as const) {
    const alarm = new Deadline()
    const rung: string[] = []
    const startedMs = performance.now()
    alarm.set(firstMs, () => rung.push('first'))
    alarm.set(thenMs, () => rung.push('then'))
    await until(() => rung.length > 0, 'the alarm')
    t.same(rung, ['then'])
    t.ok(performance.now() - startedMs >= thenMs - 1)
    alarm.discard()
  }
})

t.test('what is stopped or discarded does not ring, and may be set again', async (t) => {
  const alarm = new Deadline()
  const rung: string[] = []
  alarm.set(20, () => rung.push('stopped'))
  alarm.stop()
  const other = new Deadline()
  other.set(20, () => rung.push('discarded'))
  other.discard()
  await wait(60)
  t.same(rung, [])
  alarm.set(10, () => rung.push('again'))
  await until(() => rung.length > 0, 'the alarm')
  t.same(rung, ['again'])
})
