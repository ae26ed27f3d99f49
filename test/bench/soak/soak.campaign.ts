import t from 'tap'
import { runBench } from '../../../bench/run-bench.ts'
import type { JsonValue } from '../../support/client.ts'
import { testUnlessLacking } from '../../support/lacks.ts'
import { findMeasureLack } from '../../support/process-figures.ts'

testUnlessLacking(
  t,
  'npm run soak asks for everything, reloads, and finds every answer as it has to be',
  async (t) => {
    // So short a run says nothing of memory: its limit is out of the way.
    const { code, stdout, stderr } = await runBench(
      t,
      'soak',
      '--minutes',
      '0.15',
      '--rate',
      '40',
      '--memory',
      '9',
      '--json',
    )
    const figures: JsonValue = JSON.parse(stdout)
    t.equal(figures.unexpected, 0, stderr)
    t.ok(figures.requests > 100)
    t.ok(figures.reloads >= 2)
    t.ok(figures.rssBaselineBytes > 10_000_000 && figures.rssEndBytes > 10_000_000)
    t.equal(code, 0, stderr)
    t.match(stderr, /minute 0\.\d, \d+ requests/)
  },
  findMeasureLack(512),
)

t.test('bad usage ends with 2 and points to the help, which has an example', async (t) => {
  const { code, stderr } = await runBench(t, 'soak', '--minutes', 'many')
  t.equal(code, 2)
  t.match(stderr, /--help/)
  t.match((await runBench(t, 'soak', '--help')).stdout, /Example:\n {2}\$ npm run .*soak/)
})
