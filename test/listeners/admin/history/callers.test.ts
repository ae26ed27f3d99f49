import t from 'tap'
import { Callers, mergeCallers } from '../../../../gateway/listeners/admin/history/callers.ts'

const minute = 60_000

t.test('callers are told with what they did in the range', async (t) => {
  const callers = new Callers()
  callers.count(0, 7, false, false)
  callers.count(5 * minute, 7, true, false)
  callers.count(5 * minute, '192.0.2.1', false, true)
  t.same(callers.read(4 * minute, 6 * minute), [
    { caller: 7, requests: 1, refused: 1, failed: 0 },
    { caller: '192.0.2.1', requests: 1, refused: 0, failed: 1 },
  ])
  t.match(callers.read(0, 6 * minute)[0], { caller: 7, requests: 2 })
  t.same(callers.read(70 * minute, 80 * minute), [])
})

t.test('a heavy caller stays, however many others come once, and memory has a bound', async (t) => {
  const callers = new Callers()
  for (let index = 0; index < 20_000; index++) {
    callers.count(0, `10.0.${index >> 8}.${index & 255}`, true, false)
    if (index % 10 === 0) callers.count(0, 'heavy', true, false)
  }
  const [first, ...others] = callers.read(0, minute)
  t.match(first, { caller: 'heavy', refused: 2_000 })
  t.ok(others.length < 72)
})

t.test('counts of callers at several processes add up', async (t) => {
  const one = { caller: 7, requests: 2, refused: 1, failed: 0 }
  t.same(mergeCallers([[one], [one, { ...one, caller: 'a' }]]), [
    { caller: 7, requests: 4, refused: 2, failed: 0 },
    { caller: 'a', requests: 2, refused: 1, failed: 0 },
  ])
})
