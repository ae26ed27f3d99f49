import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { testUnlessLacking } from '../support/lacks.ts'
import type { Row } from './peers/contest.ts'
import { findLack } from './peers/find-program.ts'
import { plot } from './peers/plot.ts'
import { computeRatios } from './peers/ratios.ts'
import { runBench } from './run-bench.ts'

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

const lack = findLack('wrk', 'apt-get install wrk') ?? findLack('nginx', 'apt-get install nginx')

testUnlessLacking(
  t,
  'npm run bench measures the gateway beside nginx, and writes both down',
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const out = join(folder, 'bench.json')
    const small = ['--rounds', '1', '--seconds', '1', '--rate', '0', '--connections', '4']
    const names = '^sallyport$|^nginx, forwards only$'
    const { code, stdout, stderr } = await runBench(t, 'peers', ...small, '--only', names, '--out', out)
    t.equal(code, 0, stderr)
    t.match(stdout, /^sallyport +\d+\.\d/m)
    const { rows, ratios } = JSON.parse(readFileSync(out, 'utf8'))
    t.match(
      rows.map(({ name }: Row) => name),
      ['nginx, forwards only', 'sallyport'],
    )
    for (const row of rows) t.ok(row.cpuMicrosPerRequest > 0 && row.requestsPerCore > 0, row.name)
    t.same(Object.keys(ratios), ['sallyport / nginx, forwards only'])
  },
  lack,
)

t.test('npm run bench tells of bad usage', async (t) => {
  t.match(await runBench(t, 'peers', '--rounds', '0'), { code: 2, stderr: /whole number above 0/ })
  t.match(await runBench(t, 'peers', '--only', '('), { code: 2, stderr: /regular expression/ })
})
