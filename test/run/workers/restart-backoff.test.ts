import t from 'tap'
import { createRestartBackoff } from '../../../gateway/run/workers/restart-backoff.ts'

t.test('a worker that ends after a long life is started again at once', async (t) => {
  const judge = createRestartBackoff()
  t.same(judge(60_000), { delayMs: 0, quickDeaths: 0 })
})

t.test('quick deaths in a row are counted, and each restart waits longer, up to 10 s', async (t) => {
  const judge = createRestartBackoff()
  const verdicts = Array.from({ length: 12 }, () => judge(50))
  t.same(
    verdicts.map(({ quickDeaths }) => quickDeaths),
    Array.from({ length: 12 }, (_, index) => index + 1),
  )
  t.same(
    verdicts.map(({ delayMs }) => delayMs),
    [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000, 10_000, 10_000],
  )
})

t.test('a long life resets the delay', async (t) => {
  const judge = createRestartBackoff()
  judge(50)
  judge(50)
  judge(60_000)
  t.same(judge(50), { delayMs: 100, quickDeaths: 1 })
})
