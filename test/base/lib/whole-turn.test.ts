import t from 'tap'
import { WholeTurn } from '../../../gateway/base/lib/whole-turn.ts'

/** Turns that end when they are told to. */
function startTurns() {
  let work: (() => void)[] = []
  const end = (): void => {
    const ending = work
    work = []
    for (const one of ending) one()
  }
  return { atEnd: (one: () => void) => void work.push(one), end, planned: () => work.length }
}

t.test('a member waits for the rest of its turn and for a whole one', async (t) => {
  const { atEnd, end, planned } = startTurns()
  const over: string[] = []
  const turn = new WholeTurn<string>((member) => over.push(member), undefined, atEnd)
  turn.add('first')
  end()
  turn.add('second')
  t.same(over, [])
  end()
  t.same(over, ['first'])
  end()
  t.same(over, ['first', 'second'])
  t.equal(planned(), 0, 'nothing is planned without a member')
})

t.test('a member whose callback throws is given up, and the others are called', async (t) => {
  const { atEnd, end } = startTurns()
  const [over, failed]: [string[], string[]] = [[], []]
  const turn = new WholeTurn<string>(
    (member) => {
      if (member === 'bad') throw new Error('planted')
      over.push(member)
    },
    (member) => failed.push(member),
    atEnd,
  )
  const uncaught = t.captureFn(() => undefined)
  process.once('uncaughtException', uncaught)
  turn.add('bad')
  turn.add('good')
  end()
  end()
  t.same([over, failed], [['good'], ['bad']])
})
