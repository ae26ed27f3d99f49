import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { EndOfTickBatch, maxBatchSize } from '../../../gateway/base/lib/end-of-tick-batch.ts'

t.test('work of a turn is done at its end, in its order', async (t) => {
  const done: number[] = []
  const batch = new EndOfTickBatch<number>((item) => done.push(item))
  for (const item of [1, 2, 3]) batch.add(item)
  t.same(done, [])
  await turn()
  t.same(done, [1, 2, 3])
  batch.add(4)
  await turn()
  t.same(done, [1, 2, 3, 4])
})

t.test('the first items of a crowd do not wait for the last', async (t) => {
  const done: number[] = []
  const batch = new EndOfTickBatch<number>((item) => done.push(item))
  for (let item = 0; item < maxBatchSize; item += 1) batch.add(item)
  t.equal(done.length, 0)
  batch.add(maxBatchSize)
  t.equal(done.length, maxBatchSize)
  await turn()
  t.equal(done.length, maxBatchSize + 1)
})

t.test('work that comes up meanwhile waits for the next turn', async (t) => {
  const done: string[] = []
  const batch = new EndOfTickBatch<string>((item) => {
    done.push(item)
    if (item === 'first') batch.add('second')
  })
  batch.add('first')
  await turn()
  t.same(done, ['first'])
  await turn()
  t.same(done, ['first', 'second'])
})
