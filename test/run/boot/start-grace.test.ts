import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createFreshness } from '../../../gateway/directory/cache/freshness.ts'
import { createMetrics } from '../../../gateway/observe/metrics/metrics.ts'
import { followChanges } from '../../../gateway/run/boot/hear-changes.ts'
import { createStartGrace } from '../../../gateway/run/boot/start-grace.ts'

t.test('a part that never worked is lost after 5 s, and one that worked at once', async (t) => {
  let nowMs = 1_000
  const late = createStartGrace(() => nowMs)
  const early = createStartGrace(() => nowMs)
  t.same([late.isOver(), early.isOver()], [false, false])
  early.noteSuccess()
  nowMs += 4_999
  t.same([late.isOver(), early.isOver()], [false, true])
  nowMs += 1
  t.ok(late.isOver())
})

t.test(
  'a loss that a part tells once is told when the start has taken too long, unless it works by then',
  async (t) => {
    let nowMs = 0
    const told: string[] = []
    const lost = createStartGrace(() => nowMs)
    const mended = createStartGrace(() => nowMs)
    nowMs = 4_980
    lost.tell(() => told.push('first'))
    lost.tell(() => told.push('last'))
    mended.tell(() => told.push('mended'))
    mended.noteSuccess()
    t.same(told, [])
    await sleep(100)
    t.same(told, ['last'])
    lost.noteSuccess()
    lost.tell(() => told.push('at once'))
    t.same(told, ['last', 'at once'])
  },
)

t.test('an invalidation source that has not connected yet is not lost', async (t) => {
  const lines: string[] = []
  let nowMs = 0
  const monotonicMs = (): number => nowMs
  const write = (_: object, message: string): void => void lines.push(message)
  const silent = { request: () => undefined, close: async () => undefined }
  const log = { ...silent, debug: write, info: write, warn: write, error: write, fatal: write }
  const { handlersOf } = followChanges(() => undefined, createFreshness(monotonicMs), {
    log,
    metrics: createMetrics(),
    monotonicMs,
  })
  const slow = handlersOf('postgres', true)
  slow.onLost(new Error('not yet'))
  t.same(lines, [])
  nowMs = 5_000
  slow.onLost(new Error('still not'))
  t.same(lines.splice(0), ['invalidation source lost'])
  const quick = handlersOf('redis', true)
  quick.onConnected()
  quick.onLost(new Error('lost'))
  t.same(lines.slice(1), ['invalidation source lost'])
})
