import t from 'tap'
import { findLack } from '../../bench/peers/find-program.ts'
import { runBench } from '../../bench/run-bench.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { findMeasureLack } from '../support/process-figures.ts'

const lack = findMeasureLack() ?? findLack('wrk', '') ?? findLack('taskset', '')

testUnlessLacking(
  t,
  'bench:log-unread says what a gateway holds whose log is not read, and how it ends',
  async (t) => {
    // At 300 bytes a line and more, pipe and buffers are full long before.
    const { code, stdout, stderr } = await runBench(t, 'log-unread', '--requests', '40000', '--json')
    const figures = JSON.parse(stdout.trim() || '{}')
    t.match(figures, { failed: 0, exitCode: 0 }, stderr)
    t.ok(figures.served >= 40_000 && figures.dropped > 0)
    const isKept = figures.afterBytes - figures.beforeBytes <= 32 * 1024 * 1024 && figures.endedMs <= 5_000
    t.equal(code, isKept ? 0 : 1, 'the exit code judges the figures')
  },
  lack,
)

t.test('bench:log-unread on bad usage ends with 2 and points to the help, which has an example', async (t) => {
  const { code, stderr } = await runBench(t, 'log-unread', '--requests', 'many')
  t.equal(code, 2)
  t.match(stderr, /--help/)
  const help = await runBench(t, 'log-unread', '--help')
  t.match(help.stdout, /Example:\n {2}\$ npm run .*bench:log-unread/)
})
