import t from 'tap'
import { findNginxLack } from '../../bench/peers/nginx.ts'
import { runBench } from '../../bench/run-bench.ts'
import type { JsonValue } from '../support/client.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { findMeasureLack } from '../support/process-figures.ts'

testUnlessLacking(
  t,
  'bench:streams says what streams cost and how long events take, as a line of JSON for each size',
  async (t) => {
    const { code, stdout, stderr } = await runBench(t, 'streams', '--streams', '100,200', '--events', '50', '--json')
    const lines: JsonValue[] = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    const both = [{ streams: 100 }, { streams: 200 }]
    t.match(lines, findNginxLack() === undefined ? [...both, ...both] : both, stderr)
    const ours = lines.filter(({ way }) => way === 'sallyport')
    for (const { heapBytes, cpuMicrosPerEvent, firstEventMs, medianMs, p99Ms, maxMs } of ours) {
      t.ok(0 < cpuMicrosPerEvent && 0 < firstEventMs)
      t.ok(0 < medianMs && medianMs <= p99Ms && p99Ms <= maxMs)
      t.ok(5_000 < heapBytes && heapBytes < 50_000, `${heapBytes} bytes`)
    }
    const isKept = ours.every(({ heldBytes, p99Ms }) => heldBytes <= 20_480 && p99Ms <= 5)
    t.equal(code, isKept ? 0 : 1, 'the exit code judges the figures')
  },
  findMeasureLack(),
)

t.test('bench:streams on bad usage ends with 2 and points to the help, which has an example', async (t) => {
  const { code, stderr } = await runBench(t, 'streams', '--streams', '100,50')
  t.equal(code, 2)
  t.match(stderr, /--help/)
  const help = await runBench(t, 'streams', '--help')
  t.equal(help.code, 0)
  t.match(help.stdout, /Example:\n {2}\$ npm run .*bench:streams/)
})
