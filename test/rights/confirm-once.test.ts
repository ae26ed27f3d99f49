import t from 'tap'
import { requestMs } from '../../gateway/rights/budget.ts'
import { confirmOnce, stillCounts } from '../../gateway/rights/confirm-once.ts'

const judgeInTurn = (...verdicts: string[]) => {
  const judge = async (): Promise<string> => verdicts.shift() ?? 'one too many'
  return confirmOnce(
    judge,
    (verdict) => verdict.startsWith('old'),
    async (first) => `${await judge()} after ${first}`,
  )
}

t.test('a verdict that is out of date is made once more, and no third time', async (t) => {
  t.equal(await judgeInTurn('new', 'unused'), 'new')
  t.equal(await judgeInTurn('old', 'new'), 'new after old')
  t.equal(await judgeInTurn('old', 'old too', 'unused'), 'old too after old')
})

t.test('the second verdict refuses too', async (t) => {
  const refuse = () => Promise.reject(new Error('planted'))
  await t.rejects(
    confirmOnce(
      async () => 'old',
      () => true,
      refuse,
    ),
    /planted/,
  )
})

t.test('a verdict counts for the time of a request', async (t) => {
  t.ok(stillCounts(1_000, 1_000 + requestMs))
  t.notOk(stillCounts(1_000, 1_001 + requestMs))
  t.notOk(stillCounts(Number.NEGATIVE_INFINITY, 0), 'one that never was')
})
