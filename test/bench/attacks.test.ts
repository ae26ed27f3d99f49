import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { testUnlessLacking } from '../support/lacks.ts'
import type { Fared } from './attacks/honest.ts'
import { findBreaches, findWeaknesses, type Outcome } from './attacks/judge.ts'
import { findLack } from './peers/find-program.ts'
import { runBench } from './run-bench.ts'

const fared = (p99Ms: number, failed = 0): Fared => ({
  p50Ms: 1,
  p99Ms,
  failed,
  asked: 100,
  failures: failed > 0 ? ['answered 503'] : [],
})

const kept: Outcome = {
  name: 'any',
  quiet: fared(2),
  attacked: fared(4),
  nginx: fared(3),
  peakBytes: 200e6,
  adminMs: 99,
  cpuShare: 0.3,
  isAlive: true,
  told: { begun: 3_000, statuses: { 400: 3_000 }, seconds: 10, cpuShare: 0.5 },
  order: { connections: 50, perSecond: 300 },
}

t.test('an attack is withstood where others get twice the time of quiet, or what nginx gives them', async (t) => {
  t.same(findBreaches(kept), [])
  t.same(findBreaches({ ...kept, attacked: fared(4.1) }), ['p99 above 4.0 ms'])
  t.same(findBreaches({ ...kept, attacked: fared(4.1), nginx: fared(4.2) }), [])
  t.same(
    findBreaches({ ...kept, attacked: fared(4.1), nginx: fared(4.2, 1) }),
    ['p99 above 4.0 ms'],
    'nginx failed them',
  )
  t.same(findBreaches({ ...kept, attacked: fared(4.1), nginx: undefined }), ['p99 above 4.0 ms'])
})

t.test('a failed request, an ended process, too much memory or a late admin listener is a breach', async (t) => {
  t.same(findBreaches({ ...kept, attacked: fared(1, 7) }), ['7 failed: answered 503'])
  t.same(findBreaches({ ...kept, isAlive: false }), ['a process ended'])
  t.same(findBreaches({ ...kept, peakBytes: 513 * 1024 * 1024 }), ['more memory than the chart allows'])
  t.match(findBreaches({ ...kept, adminMs: 101 }), [/admin listener took more than 100 ms/])
  t.match(findBreaches({ ...kept, adminMs: Number.POSITIVE_INFINITY }), [/admin listener/])
})

t.test('an attack that did not reach its rate is named', async (t) => {
  t.same(findWeaknesses(kept), [])
  t.match(findWeaknesses({ ...kept, told: { ...kept.told, begun: 1_000 } }), [/reached 100 of 300 a second/])
  t.match(findWeaknesses({ ...kept, order: { connections: 9_000 } }), [/reached 3000 of 9000 connections/])
  t.match(findWeaknesses({ ...kept, told: { ...kept.told, cpuShare: 0.95 } }), [/no processor time left/])
})

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
