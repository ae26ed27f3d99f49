import t from 'tap'
import type { Fared } from '../../bench/attacks/honest.ts'
import { findBreaches, findWeaknesses, type Outcome } from '../../bench/attacks/judge.ts'

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

t.test(
  'a gateway withstands an attack where others wait at most twice as long as in quiet, or no longer than behind nginx',
  async (t) => {
    t.same(findBreaches(kept), [])
    t.same(findBreaches({ ...kept, attacked: fared(4.1) }), ['p99 above 4.0 ms'])
    t.same(findBreaches({ ...kept, attacked: fared(4.1), nginx: fared(4.2) }), [])
    t.same(
      findBreaches({ ...kept, attacked: fared(4.1), nginx: fared(4.2, 1) }),
      ['p99 above 4.0 ms'],
      'nginx failed them',
    )
    t.same(findBreaches({ ...kept, attacked: fared(4.1), nginx: undefined }), ['p99 above 4.0 ms'])
  },
)

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
