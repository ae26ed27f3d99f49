import t from 'tap'
import { findPercentile, renderTable, welch } from '../../bench/statistics.ts'

t.test('a percentile is a value that was measured: the smallest that the share does not exceed', async (t) => {
  const values = Array.from({ length: 200 }, (_, index) => 200 - index)
  t.same(
    [0.5, 0.99, 1].map((share) => findPercentile(values, share)),
    [100, 198, 200],
  )
  t.same(
    [0, 0.5, 0.99, 1].map((share) => findPercentile([7], share)),
    [7, 7, 7, 7],
  )
  t.ok(Number.isNaN(findPercentile([], 0.5)))
})

t.test('Welch’s t is that of a textbook, and none of equal samples', async (t) => {
  const left = [27.5, 21, 19, 23.6, 17, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19, 21.7, 21.4]
  const right = [27.1, 22, 20.8, 23.4, 23.4, 23.5, 25.8, 22, 24.8, 20.2, 21.9, 22.1, 22.9, 30.4, 25]
  t.ok(Math.abs(welch(left, right) + 2.9) < 0.25)
  t.equal(welch(left, right), -welch(right, left))
  t.equal(welch(left, left), 0)
})

t.test('a table has its names to the left and its numbers to the right', async (t) => {
  t.equal(
    renderTable([
      ['change', 'count'],
      ['revoke', '5'],
      ['x', '1000'],
    ]),
    'change  count\nrevoke      5\nx        1000',
  )
})
