import t from 'tap'
import { hearFaults } from '../../gateway/fault/guarded.ts'
import { inOwnTurn, ownTurn } from '../../gateway/lib/background-turns.ts'
import { inSlices } from '../../gateway/lib/in-slices.ts'

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

t.test('works that come together have a turn of the event loop each, in their order', async (t) => {
  const done: string[] = []
  for (const name of ['first', 'second', 'third']) inOwnTurn(() => done.push(name))
  t.same(done, [])
  for (const expected of [['first'], ['first', 'second'], ['first', 'second', 'third']]) {
    await nextTurn()
    t.same(done, expected)
  }
})

t.test('a work that goes on takes its place behind the others', async (t) => {
  const done: string[] = []
  const goOn = async (name: string): Promise<void> => {
    for (let slice = 0; slice < 2; slice += 1) {
      await ownTurn()
      done.push(name)
    }
  }
  await Promise.all([goOn('one'), goOn('another')])
  t.same(done, ['one', 'another', 'one', 'another'])
})

t.test('two long works do one slice in a turn together', async (t) => {
  const clock = { ms: 0 }
  let done = 0
  const work = (): void => {
    done += 1
    clock.ms += 1
  }
  const works = ['one', 'another'].map((name) => inSlices([name, name, name], work, () => clock.ms))
  t.equal(done, 2, 'the first slice of each needs no turn')
  for (let turn = 1; turn <= 4; turn += 1) {
    await nextTurn()
    t.equal(done, 2 + turn)
  }
  await Promise.all(works)
})

t.test('a work that throws is reported and stops no other', async (t) => {
  const faults: unknown[] = []
  t.teardown(hearFaults((_component, error) => faults.push(error)))
  inOwnTurn(() => {
    throw new Error('broken')
  })
  await ownTurn()
  t.match(faults, [new Error('broken')])
})
