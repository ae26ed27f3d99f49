import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { findLack } from '../../bench/peers/find-program.ts'
import { runBench } from '../../bench/run-bench.ts'
import { testUnlessLacking } from '../support/lacks.ts'

const lack = ['wrk', 'nginx', 'taskset'].map((name) => findLack(name, `apt-get install ${name}`)).find(Boolean)

testUnlessLacking(
  t,
  'npm run bench:compare says of two builds what a row costs in each, and judges it',
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const out = join(folder, 'compare.json')
    const small = [
      '--rounds',
      '1',
      '--warm-up',
      '1',
      '--connections',
      '4',
      '--streams',
      '20',
      '--rows',
      '^(JWT|404.*|event.*)$',
    ]
    const { code, stdout, stderr } = await runBench(t, 'compare', '.', '.', ...small, '--out', out)
    const { rows } = JSON.parse(readFileSync(out, 'utf8')) as { rows: readonly { name: string; verdict: string }[] }
    t.match(stdout, /^JWT +\d+\.\d +\d+\.\d +\d+\.\d{3} /m, stderr)
    t.match(rows, [{ name: 'JWT' }, { name: '404, no such route' }, { name: 'event of a stream' }])
    t.equal(code, rows.some(({ verdict }) => verdict === 'worse') ? 1 : 0, 'the exit code judges the figures')
  },
  lack,
)

t.test('npm run bench:compare tells of bad usage, and its help has examples', async (t) => {
  t.match(await runBench(t, 'compare', '.', 'no-such-commit'), { code: 2, stderr: /must be a commit/ })
  t.match(await runBench(t, 'compare', '.', '.', '--allow', 'JWT'), { code: 2, stderr: /whole percents/ })
  t.match(await runBench(t, 'compare', '.', '.', '--rounds', '0'), { code: 2, stderr: /whole number above 0/ })
  t.match(await runBench(t, 'compare', '--help'), { code: 0, stdout: /Examples:\n {2}\$ npm run .*bench:compare/ })
})
