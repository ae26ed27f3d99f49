import t from 'tap'
import { findLack } from '../../bench/peers/find-program.ts'
import { runBench } from '../../bench/run-bench.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { findMeasureLack } from '../support/process-figures.ts'

const lack = findMeasureLack() ?? findLack('wrk', '') ?? findLack('nginx', '') ?? findLack('taskset', '')

testUnlessLacking(
  t,
  'bench:endurance says how soon a gateway serves, and what it holds before and after',
  async (t) => {
    const { stdout, stderr } = await runBench(t, 'endurance', '--requests', '2000', '--seconds', '1')
    t.match(stdout, /warmed up +[\d.]+ +[\d.]+ +[\d.]+ +\d+\n/, stderr)
    t.match(stdout, /after \d{4,} requests +[\d.]+ /)
    t.match(stdout, /first request: \d+ ms; failed requests: 0\n/)
  },
  lack,
)

t.test('bench:endurance on bad usage ends with 2 and points to the help, which has an example', async (t) => {
  const { code, stderr } = await runBench(t, 'endurance', '--requests', 'many')
  t.equal(code, 2)
  t.match(stderr, /--help/)
  const help = await runBench(t, 'endurance', '--help')
  t.match(help.stdout, /Example:\n {2}\$ npm run .*bench:endurance/)
})
