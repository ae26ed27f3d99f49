import t from 'tap'
import { createWaitingShares } from '../../../gateway/stages/forward/waiting-shares.ts'

t.test('each owner has its own share of each upstream, and nothing is kept behind the last', async (t) => {
  const shares = createWaitingShares(2)
  const [first, second] = [shares.enter('a', 1), shares.enter('a', 1)]
  t.equal(shares.enter('a', 1), undefined)
  const others = [shares.enter('a', 2), shares.enter('a', 'user 1'), shares.enter('b', 1)]
  t.equal(others.includes(undefined), false)
  t.same(
    [...shares.readMost()],
    [
      ['a', 2],
      ['b', 1],
    ],
  )
  first?.()
  t.type(shares.enter('a', 1), 'function')
  t.equal(shares.enter('a', 1), undefined)
  first?.()
  second?.()
  for (const leave of others) leave?.()
  t.equal(shares.readMost().size, 0)
})
