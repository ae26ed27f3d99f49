import t from 'tap'
import { runBench } from '../../bench/run-bench.ts'
import { decisionPoints } from '../support/decision-points.ts'
import { testUnlessLacking } from '../support/lacks.ts'

type Row = Readonly<{ pdp: string; fault: string; unproven: number; maxMs: number }>

testUnlessLacking(
  t,
  'npm run bench:decisions says how long answers take while a decision point fails, and judges it',
  async (t) => {
    const { code, stdout, stderr } = await runBench(t, 'decisions', '--requests', '200', '--json')
    const { rows }: { rows: readonly Row[] } = JSON.parse(stdout)
    t.equal(rows.length, 4 * decisionPoints.length, stderr)
    t.same(new Set(rows.map(({ unproven }) => unproven)), new Set([0]))
    t.equal(code, rows.every(({ maxMs }) => maxMs <= 100) ? 0 : 1, 'the exit code judges the figures')
  },
  decisionPoints.map(({ lack }) => lack).find((lack) => lack !== undefined),
)

t.test('npm run bench:decisions tells of bad usage, and its help has an example', async (t) => {
  t.match(await runBench(t, 'decisions', '--requests', '0'), { code: 2, stderr: /--help/ })
  t.match(await runBench(t, 'decisions', '--help'), { code: 0, stdout: /Example:\n {2}\$ npm run .*bench:decisions/ })
})
