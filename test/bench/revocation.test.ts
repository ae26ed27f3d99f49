import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import type { JsonValue } from '../support/client.ts'

/** Runs the bench by what its npm script calls. */
async function run(t: Test, ...options: readonly string[]) {
  const script = fileURLToPath(new URL('run.js', import.meta.url))
  const { PATH, HOME, REDIS_URL } = process.env
  const child = spawn(process.execPath, [script, 'revocation', ...options], {
    env: { PATH, HOME, ...(REDIS_URL && { REDIS_URL }) },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => child.kill())
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    child[name].on('data', (chunk: Buffer) => {
      output[name] += chunk.toString()
    })
  const [code] = await once(child, 'close')
  return { code, ...output }
}

t.test('bench:revocation makes each kind of change and says how long it took, as a line of JSON each', async (t) => {
  const { code, stdout, stderr } = await run(t, '--count', '5', '--json')
  t.match(stderr, /starting a database and two replicas/)
  const lines: JsonValue[] = stdout
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
  t.equal(code, lines.every(({ maxMs }) => maxMs <= 1_000) ? 0 : 1, 'the exit code judges the figures')
})

t.test('bench:revocation on bad usage ends with 2 and points to the help, which has an example', async (t) => {
  const { code, stderr } = await run(t, '--count', 'many')
  t.equal(code, 2)
  t.match(stderr, /--help/)
  const help = await run(t, '--help')
  t.equal(help.code, 0)
  t.match(help.stdout, /Example:\n {2}\$ npm run .*bench:revocation/)
})
