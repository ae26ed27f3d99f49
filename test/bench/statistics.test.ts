import t from 'tap'
import { findPercentile, renderTable } from './statistics.ts'

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
