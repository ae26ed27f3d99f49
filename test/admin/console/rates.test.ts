import t from 'tap'
import { createRates } from '../../../gateway/admin/console/rates.ts'

t.test('a pace needs two looks, and is over the last ten seconds', async (t) => {
  const { note, perSecond, growth, history } = createRates()
  t.equal(perSecond('requests'), undefined)
  note(0, { requests: 100 })
  t.equal(perSecond('requests'), undefined, 'a total is no pace')
  note(60_000, { requests: 160 })
  t.same(history('requests'), [1])
  note(62_000, { requests: 180 })
  note(64_000, { requests: 200 })
  t.equal(perSecond('requests'), 10)
  t.equal(growth('requests'), 100)
  t.same(history('requests'), [1, 10, 10])
})

t.test('two pages at once do not shorten each other’s steps, and old looks are forgotten', async (t) => {
  const { note, history, growth } = createRates()
  note(0, { requests: 0 })
  note(2_000, { requests: 20 })
  note(2_300, { requests: 90 })
  t.same(history('requests'), [10])
  note(122_000, { requests: 140 })
  t.same(history('requests'), [1])
  t.equal(growth('requests'), 120)
})

t.test('a count that is new, or that fell, is no negative pace', async (t) => {
  const { note, history, growth } = createRates()
  note(0, { old: 50 })
  note(2_000, { old: 10, fresh: 4 })
  t.same(history('old'), [0])
  t.same(history('fresh'), [2])
  t.equal(growth('fresh'), 4)
})
