import t, { type Test } from 'tap'
import { LineWriter, type LineWriterOptions } from '../../../gateway/observe/audit/line-writer.ts'
import { until } from '../../support/gateway.ts'
import { createFakePlace, takeAll } from './fake-place.ts'

function open(t: Test, options: Partial<LineWriterOptions> = {}) {
  const place = createFakePlace()
  const told = { written: 0, lost: 0, failures: [] as unknown[], recoveries: 0 }
  const writer = new LineWriter({
    place,
    bufferBytes: 1_000_000,
    monotonicMs: () => performance.now(),
    retryMs: 20,
    followMs: 1e9,
    onWritten: (lines) => {
      told.written += lines
    },
    onLost: (lines) => {
      told.lost += lines
    },
    onFailing: (error) => told.failures.push((error as NodeJS.ErrnoException).code),
    onRecovered: () => {
      told.recoveries += 1
    },
    ...options,
  })
  t.teardown(() => writer.close(0))
  return { place, writer, told }
}

const lines = (from: number, to: number): readonly string[] =>
  Array.from({ length: to - from }, (_, index) => `line ${from + index}\n`)

/** A place that takes nothing until it is let go. */
function holdBack() {
  let release: (answer: number | string) => void = () => undefined
  const held = new Promise<number | string>((resolve) => {
    release = resolve
  })
  return { answer: () => held, release }
}

t.test(
  'lines are written in their order, many at once, and no write is larger than the place takes unmixed',
  async (t) => {
    const { place, writer, told } = open(t)
    const all = lines(0, 2_000)
    for (const line of all) writer.push(line)
    await until(() => told.written === 2_000, 'all lines')
    t.equal(place.taken(), all.join(''))
    t.ok(place.tried().every((size) => size <= 4_096))
    t.ok(place.tried().length < 20, `${place.tried().length} writes`)
    t.equal(told.lost, 0)
  },
)

t.test('a line that does not fit into the memory is lost and counted, and a held line is not', async (t) => {
  const { place, writer, told } = open(t, { bufferBytes: 100 })
  const { answer, release } = holdBack()
  place.answer(answer)
  const all = lines(10, 60)
  const isTaken = all.map((line) => writer.push(line) !== undefined)
  t.equal(isTaken.filter(Boolean).length, 12, 'a hundred bytes of lines')
  t.equal(told.lost, 38)
  place.answer(takeAll)
  release(Number.POSITIVE_INFINITY)
  await until(() => told.written === 12, 'what was held')
  t.equal(place.taken(), all.slice(0, 12).join(''))
  t.ok(writer.push('again\n'), 'there is room again')
})

t.test('a write that takes a part is finished before anything else', async (t) => {
  const { place, writer, told } = open(t)
  place.answer(() => 3)
  for (const line of lines(0, 5)) writer.push(line)
  await until(() => told.written === 5, 'all lines')
  t.equal(place.taken(), lines(0, 5).join(''))
})

t.test('a full pipe is slow, and no failure', async (t) => {
  const { place, writer, told } = open(t)
  let refusals = 3
  place.answer(() => (refusals-- > 0 ? 'EAGAIN' : 1_000))
  const waits: boolean[] = []
  writer.push('waits\n', (isWritten) => waits.push(isWritten))
  await until(() => waits.length > 0, 'the line')
  t.same(waits, [true])
  t.same(told.failures, [])
  t.equal(writer.isFailing, false)
})

t.test('lines without a waiting caller outlast a failure, and it is reported once', async (t) => {
  const { place, writer, told } = open(t)
  place.answer(() => 'ENOSPC')
  for (const line of lines(0, 5)) writer.push(line)
  await until(() => place.tried().length > 3, 'several tries')
  t.same(told.failures, ['ENOSPC'])
  t.equal(writer.isFailing, true)
  place.answer(takeAll)
  await until(() => told.written === 5, 'all lines')
  t.equal(place.taken(), lines(0, 5).join(''))
  t.equal(told.recoveries, 1)
  t.equal(told.lost, 0)
  t.equal(writer.isFailing, false)
})

t.test('a line that is cut by a failure is finished, and not begun again', async (t) => {
  const { place, writer, told } = open(t)
  const { answer, release } = holdBack()
  place.answer(answer)
  for (const line of lines(0, 5)) writer.push(line)
  const pieces: (number | string)[] = [10, 'ENOSPC', 'ENOSPC']
  place.answer(() => pieces.shift() ?? takeAll())
  release(Number.POSITIVE_INFINITY)
  await until(() => told.written === 5, 'all lines')
  t.equal(place.taken(), lines(0, 5).join(''))
})

t.test('a line that was cut begins again in another file', async (t) => {
  const { place, writer, told } = open(t, { followMs: 0 })
  const pieces: (number | string)[] = [3, 'ENOSPC']
  place.answer(() => {
    const piece = pieces.shift() ?? takeAll()
    if (piece === 'ENOSPC') place.move()
    return piece
  })
  writer.push('line 0\n')
  await until(() => told.written === 1, 'the line')
  t.equal(place.taken(), 'linline 0\n')
})

t.test('a waiting caller learns of a failure at once, and the line is not written later', async (t) => {
  const { place, writer, told } = open(t, { retryMs: 1e6 })
  place.answer(() => 'EPIPE')
  const ends: boolean[] = []
  for (const line of lines(0, 5)) writer.push(line, (isWritten) => ends.push(isWritten))
  await until(() => ends.length === 5, 'all that wait')
  t.same(ends, [false, false, false, false, false])
  t.equal(told.lost, 5)
  t.equal(
    writer.push('late\n', () => t.fail('no line is to wait')),
    undefined,
    'no other line begins to wait',
  )
  t.equal(told.lost, 6)
})

t.test('after a rest the next line tries whether the place works again', async (t) => {
  const { place, writer, told } = open(t, { retryMs: 30 })
  place.answer(() => 'EPIPE')
  writer.push('first\n', () => undefined)
  await until(() => told.lost === 1, 'the failure')
  place.answer(takeAll)
  const isWritten = () => new Promise<boolean>((resolve) => writer.push('probe\n', resolve) ?? resolve(false))
  await until(isWritten, 'a line that is written')
  t.equal(place.taken(), 'probe\n')
  t.equal(told.recoveries, 1)
})

t.test(
  'callers who wait for the first lines of a batch that fails in its middle learn that these are written',
  async (t) => {
    const { place, writer, told } = open(t)
    const { answer, release } = holdBack()
    place.answer(answer)
    writer.push('before\n', () => undefined)
    const ends: boolean[] = []
    for (const line of lines(0, 4)) writer.push(line, (isWritten) => ends.push(isWritten))
    const pieces: (number | string)[] = [7 + 7 + 2, 'ENOSPC']
    place.answer(() => pieces.shift() ?? takeAll())
    release(Number.POSITIVE_INFINITY)
    await until(() => ends.length === 4, 'all that wait')
    t.same(ends, [true, true, false, false])
    await until(() => place.taken().endsWith('line 2\n'), 'the second half of the line that was cut')
    t.equal(place.taken(), 'before\nline 0\nline 1\nline 2\n')
    t.equal(told.lost, 1, 'the one that was never begun')
    t.equal(told.written, 4)
  },
)

t.test('a line that is given up is not written, unless it is under way', async (t) => {
  const { place, writer, told } = open(t)
  const { answer, release } = holdBack()
  place.answer(answer)
  const [first, second] = lines(0, 2).map((line) => writer.push(line, () => undefined))
  if (!first || !second) throw new Error('there is room')
  writer.giveUp(first)
  writer.giveUp(second)
  t.equal(told.lost, 1)
  place.answer(takeAll)
  release(Number.POSITIVE_INFINITY)
  await until(() => told.written === 1, 'the first')
  t.equal(place.taken(), 'line 0\n')
})

t.test('the end waits for what is held, and then for nothing', async (t) => {
  const { place, writer, told } = open(t)
  const { answer, release } = holdBack()
  place.answer(answer)
  for (const line of lines(0, 100)) writer.push(line)
  const closed = writer.close(5_000)
  t.equal(writer.push('late\n'), undefined)
  place.answer(takeAll)
  release(Number.POSITIVE_INFINITY)
  await closed
  t.equal(place.taken(), lines(0, 100).join(''))
  t.equal(told.lost, 1, 'the late one')
  t.equal(place.isClosed(), true)
})

t.test('the end waits for so long, and counts what is lost by then', async (t) => {
  const { place, writer, told } = open(t)
  place.answer(() => 'EAGAIN')
  for (const line of lines(0, 10)) writer.push(line)
  await writer.close(50)
  t.equal(told.lost, 10)
  place.answer(takeAll)
  await until(() => place.isClosed(), 'the close')
  t.equal(told.written, 0, 'and nothing is counted twice')
})

t.test('an end during a failure tries once more', async (t) => {
  const { place, writer, told } = open(t, { retryMs: 1e6 })
  place.answer(() => 'ENOSPC')
  writer.push('kept\n')
  await until(() => told.failures.length === 1, 'the failure')
  place.answer(takeAll)
  await writer.close(1_000)
  t.equal(place.taken(), 'kept\n')
  t.equal(told.lost, 0)
})
