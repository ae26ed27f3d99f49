import t from 'tap'
import type { Row } from '../../bench/peers/contest.ts'
import { plot } from '../../bench/peers/plot.ts'
import { computeRatios } from '../../bench/peers/ratios.ts'

const toRow = (name: string, cpuMicrosPerRequest: number): Row => ({
  name,
  cpuMicrosPerRequest,
  requestsPerCore: 1,
  cpuMicrosQuartiles: [cpuMicrosPerRequest, cpuMicrosPerRequest],
})

t.test('a ratio is given where both of its rows were measured', async (t) => {
  const rows = [toRow('sallyport', 50), toRow('nginx, forwards only', 25), toRow('http-proxy, same decision', 200)]
  t.match(computeRatios(rows), [
    { name: 'sallyport / nginx, forwards only', value: 2, limit: 2.5 },
    { name: 'sallyport / http-proxy, same decision', value: 0.25, limit: 0.4 },
  ])
  t.equal(computeRatios(rows.slice(0, 2)).length, 1)
})

t.test('a plot has a bar for each row, and no markup of its name', async (t) => {
  const drawn = plot([toRow('<a> & b', 10), toRow('sallyport', 5)])
  t.equal(drawn.match(/<rect/g)?.length, 2)
  t.match(drawn, /&lt;a> &amp; b/)
})
