import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Row } from '../../bench/peers/contest.ts'
import { findLack } from '../../bench/peers/find-program.ts'
import { runBench } from '../../bench/run-bench.ts'
import { testUnlessLacking } from '../support/lacks.ts'

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
