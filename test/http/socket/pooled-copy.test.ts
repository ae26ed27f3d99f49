import t from 'tap'
import { PooledCopy } from '../../../gateway/http/socket/pooled-copy.ts'

const kib = 1024

for (const bytes of [0, 1, 4 * kib, 16 * kib, 16 * kib + 1, 32 * kib, 32 * kib + 1, 64 * kib, 64 * kib + 1, 200 * kib])
  t.test(`a copy of ${bytes} bytes does not change with its original`, async (t) => {
    const lent = Buffer.alloc(bytes, 'a')
    const copy = new PooledCopy(lent)
    lent.fill('b')
    const others = [...'cdef'].map((letter) => new PooledCopy(Buffer.alloc(bytes, letter)))
    t.equal(copy.bytes.toString(), 'a'.repeat(bytes))
    for (const each of [copy, ...others]) each.recycle()
  })

t.test('the memory of a large copy is used again once that copy is recycled', async (t) => {
  const size = 60 * kib
  const first = new PooledCopy(Buffer.alloc(size, 'a'))
  const second = new PooledCopy(Buffer.alloc(size, 'b'))
  t.not(first.bytes.buffer, second.bytes.buffer)
  first.recycle()
  const third = new PooledCopy(Buffer.alloc(size, 'c'))
  t.equal(third.bytes.buffer, first.bytes.buffer)
  t.equal(second.bytes.toString(), 'b'.repeat(size))
})

t.test('memory that is recycled twice is used by one other copy', async (t) => {
  const copies = [...'ab'].map((letter) => new PooledCopy(Buffer.alloc(40 * kib, letter)))
  for (const copy of [...copies, ...copies]) copy.recycle()
  const memory = [...'cdef'].map((letter) => new PooledCopy(Buffer.alloc(40 * kib, letter)).bytes.buffer)
  t.equal(new Set(memory).size, 4)
})

t.test('a slab is at least half full', async (t) => {
  for (const bytes of [17, 31, 32, 33, 48, 64]) {
    const { buffer } = new PooledCopy(Buffer.alloc(bytes * kib)).bytes
    t.ok(buffer.byteLength < 2 * bytes * kib, `${bytes} KiB in ${buffer.byteLength}`)
  }
})

t.test('32 of 100 slabs that are recycled at once are kept', async (t) => {
  const copies = Array.from({ length: 100 }, () => new PooledCopy(Buffer.alloc(64 * kib)))
  const before = new Set(copies.map(({ bytes }) => bytes.buffer))
  t.equal(before.size, 100)
  for (const copy of copies) copy.recycle()
  const again = Array.from({ length: 100 }, () => new PooledCopy(Buffer.alloc(64 * kib)))
  const reused = again.filter(({ bytes }) => before.has(bytes.buffer)).length
  t.equal(reused, 32)
})
