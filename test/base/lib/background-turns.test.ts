import t from 'tap'
import { hearFaults } from '../../../gateway/base/fault/guarded.ts'
import { BackgroundTurns } from '../../../gateway/base/lib/background-turns.ts'

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Turns by a clock that stands still unless the test moves it. */
function createTurnsFixture() {
  const clock = { ms: 1_000 }
  return { clock, turns: new BackgroundTurns(() => clock.ms) }
}

t.test('works that come together have a turn of the event loop each, in their order', async (t) => {
  const { turns } = createTurnsFixture()
  const done: string[] = []
  for (const name of ['first', 'second', 'third']) turns.add(() => done.push(name))
  t.same(done, [])
  for (const expected of [['first'], ['first', 'second'], ['first', 'second', 'third']]) {
    await nextTurn()
    t.same(done, expected)
  }
})

t.test('a work that goes on takes its place behind the others', async (t) => {
  const { turns } = createTurnsFixture()
  const done: string[] = []
  const goOn = async (name: string): Promise<void> => {
    for (let slice = 0; slice < 2; slice += 1) {
      await new Promise<void>(turns.add)
      done.push(name)
    }
  }
  await Promise.all([goOn('one'), goOn('another')])
  t.same(done, ['one', 'another', 'one', 'another'])
})

t.test('a long turn has several works, so that they proceed beside many requests', async (t) => {
  const { clock, turns } = createTurnsFixture()
  const done: number[] = []
  const goOn = (number: number) => (): void => {
    done.push(number)
    turns.add(() => done.push(-number))
  }
  for (const number of [1, 2, 3, 4]) turns.add(goOn(number))
  clock.ms += 48
  await nextTurn()
  t.same(done, [1, 2, 3], 'one for each 16 ms')
  clock.ms += 1_000
  await nextTurn()
  t.same(done, [1, 2, 3, 4, -1, -2, -3], 'a work that goes on comes once in a turn, however long that is')
  await nextTurn()
})

t.test('a work that throws is reported and stops no other', async (t) => {
  const faults: unknown[] = []
  t.teardown(hearFaults((_component, error) => faults.push(error)))
  const turns = new BackgroundTurns()
  turns.add(() => {
    throw new Error('broken')
  })
  await new Promise<void>(turns.add)
  t.match(faults, [new Error('broken')])
})
