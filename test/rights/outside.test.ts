import t from 'tap'
import { OutsideAnswer } from '../../gateway/rights/outside.ts'

const statesOf = (answer: OutsideAnswer, ...moments: readonly number[]) => moments.map((ms) => answer.stateAt(ms))

t.test('an answer is held, then due, and lost once it is overdue for too long', async (t) => {
  const answer = new OutsideAnswer(1_000, 930)
  t.same(statesOf(answer, 999, 1_000, 1_930, 1_931), ['held', 'due', 'due', 'lost'])
})

t.test('one question is under way at a time, and its answer holds from when it was asked', async (t) => {
  const answer = new OutsideAnswer(1_000, 930)
  answer.noteAsked()
  t.same(statesOf(answer, 1_000, 1_930, 1_931), ['waiting', 'waiting', 'lost'])
  answer.noteAnswered(2_000)
  t.same(statesOf(answer, 1_999, 2_000), ['held', 'due'])
})

t.test('a failure rests for a quarter of the time that is borne, and for a second at most', async (t) => {
  for (const [borneMs, restMs] of [
    [930, 232.5],
    [300_000, 1_000],
  ] as const) {
    const answer = new OutsideAnswer(0, borneMs)
    answer.noteAsked()
    answer.noteFailed(100)
    t.same(statesOf(answer, 100, 99 + restMs, 100 + restMs), ['waiting', 'waiting', 'due'])
  }
})

t.test('another question is due at once, whatever rested, and never later than the first', async (t) => {
  const answer = new OutsideAnswer(1_000, 930)
  answer.expire(500)
  t.equal(answer.stateAt(500), 'due')
  answer.noteAsked()
  answer.noteFailed(600)
  answer.expire(700)
  t.same(statesOf(answer, 700, 1_430, 1_431), ['due', 'due', 'lost'])
})
