import t from 'tap'
import { findCommit } from '../../bench/compare/checkout.ts'
import { estimate, findSpread, judge } from '../../bench/compare/estimate.ts'
import { type Course, pair } from '../../bench/compare/pair.ts'

t.test('an estimate is the geometric mean of the ratios, between the ends of its interval', async (t) => {
  const { value, low, high } = estimate([0.5, 2, 1, 1])
  t.equal(value.toFixed(9), '1.000000000')
  t.ok(low < 0.9 && high > 1.1)
  t.same(estimate([1.04, 1.04]), { value: 1.04, low: 1.04, high: 1.04 })
  const wide = estimate([0.9, 1, 1, 1.1, 0.9, 1, 1, 1.1])
  const narrow = estimate([0.99, 1, 1, 1.01, 0.99, 1, 1, 1.01])
  t.ok(findSpread(narrow) < findSpread(wide), 'what differs less is known better')
  t.same(estimate([0.9, 1, 1.1]), estimate([0.9, 1, 1.1]), 'and is the same in every run')
})

t.test('an interval holds the truth about as often as it says', async (t) => {
  // Sixteen restarts, each off by up to a tenth in ways that repeat after 97 of them.
  const runs = Array.from({ length: 200 }, (_, run) =>
    estimate(Array.from({ length: 16 }, (_, restart) => 1.02 * 1.1 ** ((((run * 16 + restart) * 53) % 97) / 48 - 1))),
  )
  const right = runs.filter(({ low, high }) => low <= 1.02 && 1.02 <= high).length
  t.ok(right > 170, `${right} of 200`)
})

t.test('a spread is how far the interval reaches from 1, on either side', async (t) => {
  t.equal(findSpread({ value: 1.01, low: 0.99, high: 1.04 }).toFixed(3), '0.040')
  t.equal(findSpread({ value: 0.97, low: 0.95, high: 1.01 }).toFixed(3), '0.050')
})

t.test('a row is worse by more than 3 %, or what was named, beyond the spread', async (t) => {
  const of = (value: number) => ({ value, low: value, high: value })
  t.equal(judge(of(0.5), 0), 'kept')
  t.equal(judge(of(1.029), 0), 'kept')
  t.equal(judge(of(1.031), 0), 'worse')
  t.equal(judge(of(1.05), 0.025), 'kept')
  t.equal(judge(of(1.059), 0, 6), 'named')
  t.equal(judge(of(1.061), 0, 6), 'worse')
  t.equal(judge(of(1.02), 0, 6), 'kept', 'what was named and is not used is no excuse')
})

t.test('two sides take turns, the other way round after every other start', async (t) => {
  const turns: string[] = []
  const play = (side: string, cost: number) => async (): Promise<readonly Course[]> => {
    turns.push(`start ${side}`)
    const name = 'row'
    return [
      {
        name,
        warmUp: async () => turns.push(`warm ${side}`),
        measure: async () => {
          turns.push(side)
          return cost
        },
      },
    ]
  }
  const options = { restarts: 2, notify: () => undefined, signal: new AbortController().signal }
  t.same(await pair(play('A', 10), play('B', 11), options), [{ name: 'row', left: [10, 10], right: [11, 11] }])
  t.same(turns, [
    ...['start A', 'start B', 'warm A', 'warm B', 'A', 'B', 'B', 'A'],
    ...['start B', 'start A', 'warm B', 'warm A', 'B', 'A', 'A', 'B'],
  ])
})

t.test('a commit is what git knows by that name', async (t) => {
  t.equal(findCommit('no-such-commit'), undefined)
  t.equal(findCommit('.'), '.')
})
