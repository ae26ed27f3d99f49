import t from 'tap'
import { findLack } from '../../bench/peers/find-program.ts'
import { runBench } from '../../bench/run-bench.ts'
import { testUnlessLacking } from '../support/lacks.ts'

const lack = ['wrk', 'nginx', 'taskset'].map((name) => findLack(name, `apt-get install ${name}`)).find(Boolean)

testUnlessLacking(
  t,
  'npm run bench:objects measures foreign beside absent objects and the cost of a check, and judges both',
  async (t) => {
    const { code, stdout, stderr } = await runBench(t, 'objects', '--pairs', '200', '--rounds', '2', '--json')
    const { times, checkMicros, ratio } = JSON.parse(stdout)
    t.match(
      times,
      [
        { name: 'not asked for before', count: 200 },
        { name: 'asked for before', count: 200 },
      ],
      stderr,
    )
    t.ok(checkMicros > 0 && ratio > 0)
    const isKept = times.every(({ t }: { t: number }) => Math.abs(t) < 4.5) && checkMicros <= 2 && ratio <= 1.05
    t.equal(code, isKept ? 0 : 1, 'the exit code judges the figures')
  },
  lack,
)

t.test('npm run bench:objects tells of bad usage, and its help has an example', async (t) => {
  t.match(await runBench(t, 'objects', '--pairs', '0'), { code: 2, stderr: /--help/ })
  t.match(await runBench(t, 'objects', '--help'), { code: 0, stdout: /Example:\n {2}\$ npm run .*bench:objects/ })
})
