import t from 'tap'
import { hearFaults } from '../../gateway/base/fault/guarded.ts'
import type { Change } from '../../gateway/directory/change.ts'
import { createChangeQueue } from '../../gateway/directory/change-queue.ts'

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const usersTo = (count: number): readonly Change[] =>
  Array.from({ length: count }, (_, index) => ({ kind: 'user', id: index + 1 }))

/** Each change takes a millisecond of the processor, so one is a turn's share. */
function spend(): void {
  const untilMs = performance.now() + 1
  while (performance.now() < untilMs);
}

t.test('a change is taken at once, and a burst in turns, in its order', async (t) => {
  const taken: Change[] = []
  const queue = createChangeQueue(
    (change) => {
      taken.push(change)
      spend()
    },
    () => undefined,
  )
  queue.add(usersTo(5))
  t.same(taken, usersTo(1))
  await nextTurn()
  t.ok(taken.length < 5, 'other work comes in between')
  await queue.passed()
  t.same(taken, usersTo(5))
})

t.test('a proof that all changes came waits for those that are not taken yet', async (t) => {
  const taken: Change[] = []
  const queue = createChangeQueue(
    (change) => {
      taken.push(change)
      spend()
    },
    () => undefined,
  )
  queue.add(usersTo(4))
  const heard = queue.passed().then(() => taken.length)
  queue.add([{ kind: 'token', id: 9 }])
  t.ok((await heard) >= 4)
})

t.test('a change that cannot be taken is told', async (t) => {
  t.teardown(hearFaults(() => undefined))
  let lost = 0
  const queue = createChangeQueue(
    () => {
      throw new Error('a fault of the caches')
    },
    () => {
      lost += 1
    },
  )
  queue.add(usersTo(1))
  await queue.passed()
  t.equal(lost, 1)
})
