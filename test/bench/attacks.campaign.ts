import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Outcome } from '../../bench/attacks/judge.ts'
import { findLack } from '../../bench/peers/find-program.ts'
import { runBench } from '../../bench/run-bench.ts'
import { testUnlessLacking } from '../support/lacks.ts'

const lack = ['nginx', 'taskset', 'chrt'].map((name) => findLack(name, `apt-get install ${name}`)).find(Boolean)

testUnlessLacking(
  t,
  'npm run bench:attacks says of each attack what others noticed of it, and judges that',
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const out = join(folder, 'attacks.json')
    const small = ['--seconds', '1', '--warm-up', '1', '--rate', '20', '--scale', '0.01', '--out', out]
    const names = ['interim', 'read-ahead', 'guesses']
    const { code, stdout, stderr } = await runBench(t, 'attacks', ...small, '--attack', `^(${names.join('|')})$`)
    type Figures = Outcome & Readonly<{ breaches: readonly string[] }>
    const all = JSON.parse(readFileSync(out, 'utf8')) as readonly Figures[]
    t.same(
      all.map(({ name }) => name),
      names,
      stderr,
    )
    for (const { name, attacked, nginx, peakBytes, isAlive, told } of all) {
      t.equal(attacked.failed, 0, `${name}: ${attacked.failures}`)
      t.ok(attacked.asked === 20 && attacked.p50Ms > 0 && nginx && nginx.p50Ms > 0, name)
      t.ok(isAlive && peakBytes > 50e6, name)
      t.ok(told.begun > 0, `${name} was attacked`)
      t.match(stdout, new RegExp(`^${name} +\\d`, 'm'))
    }
    t.equal(code, all.some(({ breaches }) => breaches.length > 0) ? 1 : 0, 'the exit code judges the figures')
  },
  lack,
)

t.test('npm run bench:attacks tells of bad usage, and its help has examples', async (t) => {
  t.match(await runBench(t, 'attacks', '--scale', '2'), { code: 2, stderr: /1 at most/ })
  t.match(await runBench(t, 'attacks', '--attack', 'no-such'), { code: 1, stderr: /there are line-ends/ })
  t.match(await runBench(t, 'attacks', '--help'), { code: 0, stdout: /Examples:\n {2}\$ npm run .*bench:attacks/ })
})
