import t from 'tap'
import { runBench } from '../../bench/run-bench.ts'
import type { JsonValue } from '../support/client.ts'

t.test('bench:revocation makes each kind of change and says how long it took, as a line of JSON each', async (t) => {
  const { code, stdout, stderr } = await runBench(
    t,
    'revocation',
    '--count',
    '5',
    '--open',
    '80',
    '--at-once',
    '10',
    '--json',
  )
  t.match(stderr, /starting a database and two replicas/)
  const [ends, ...lines]: JsonValue[] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const kinds = ['revoke', 'role-change', 'membership-removal', 'cluster-suspend']
  t.match(
    lines,
    kinds.map((change) => ({ change, count: 5, acceptedAfter: 0 })),
    stderr,
  )
  for (const { change, medianMs, p99Ms, maxMs } of lines)
    t.ok(0 <= medianMs && medianMs <= p99Ms && p99Ms <= maxMs, change)
  t.match(ends, {
    bystanders: 10,
    harmed: 0,
    atOnce: { members: 10, rounds: 5 },
    ended: kinds.map((change) => ({ change, count: 5, acceptedAfter: 0 })),
  })
  const isKept = [...lines, ...ends.ended, ends.atOnce].every(({ maxMs }) => maxMs <= 1_000)
  const isQuiet = ends.atOnce.othersAfterMs <= 2 * ends.atOnce.othersBeforeMs
  t.equal(
    code,
    isKept && isQuiet && ends.ended.every((kind: JsonValue) => kind.p99Ms <= 250) ? 0 : 1,
    'the exit code judges the figures',
  )
})

t.test('bench:revocation refuses more changes than there are open exchanges', async (t) => {
  const { code, stderr } = await runBench(t, 'revocation', '--count', '5', '--open', '65', '--at-once', '10')
  t.equal(code, 1)
  t.match(stderr, /4 kinds of 5 changes, and 5 times 10 at once, take more than 65 open exchanges/)
})

t.test('bench:revocation on bad usage ends with 2 and points to the help, which has an example', async (t) => {
  const { code, stderr } = await runBench(t, 'revocation', '--count', 'many')
  t.equal(code, 2)
  t.match(stderr, /--help/)
  const help = await runBench(t, 'revocation', '--help')
  t.equal(help.code, 0)
  t.match(help.stdout, /Example:\n {2}\$ npm run .*bench:revocation/)
})
