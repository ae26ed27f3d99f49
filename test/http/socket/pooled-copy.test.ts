import t from 'tap'
import { PooledCopy } from '../../../gateway/http/socket/pooled-copy.ts'

const kib = 1024

for (const bytes of [0, 1, 4 * kib, 16 * kib, 16 * kib + 1, 32 * kib, 32 * kib + 1, 64 * kib, 64 * kib + 1, 200 * kib])
  t.test(`a copy of ${bytes} bytes stays as it is, whatever becomes of them`, async (t) => {
    const lent = Buffer.alloc(bytes, 'a')
    const copy = new PooledCopy(lent)
    lent.fill('b')
    const others = [...'cdef'].map((letter) => new PooledCopy(Buffer.alloc(bytes, letter)))
    t.equal(copy.bytes.toString(), 'a'.repeat(bytes))
    for (const each of [copy, ...others]) each.recycle()
  })

t.test('the memory of large copies is used again, once each of them was given back', async (t) => {
  const size = 60 * kib
  const first = new PooledCopy(Buffer.alloc(size, 'a'))
  const second = new PooledCopy(Buffer.alloc(size, 'b'))
  t.not(first.bytes.buffer, second.bytes.buffer)
  first.recycle()
  const third = new PooledCopy(Buffer.alloc(size, 'c'))
  t.equal(third.bytes.buffer, first.bytes.buffer)
  t.equal(second.bytes.toString(), 'b'.repeat(size))
})

t.test('a copy that is given back twice is used by one other', async (t) => {
  const copies = [...'ab'].map((letter) => new PooledCopy(Buffer.alloc(40 * kib, letter)))
  for (const copy of [...copies, ...copies]) copy.recycle()
  const memory = [...'cdef'].map((letter) => new PooledCopy(Buffer.alloc(40 * kib, letter)).bytes.buffer)
  t.equal(new Set(memory).size, 4)
})

t.test('no slab is left more than half empty', async (t) => {
  for (const bytes of [17, 31, 32, 33, 48, 64]) {
    const { buffer } = new PooledCopy(Buffer.alloc(bytes * kib)).bytes
    t.ok(buffer.byteLength < 2 * bytes * kib, `${bytes} KiB in ${buffer.byteLength}`)
  }
})

t.test('of many that were given back at once no more are kept than a crowd needs', async (t) => {
  const copies = Array.from({ length: 100 }, () => new PooledCopy(Buffer.alloc(64 * kib)))
  const before = new Set(copies.map(({ bytes }) => bytes.buffer))
  t.equal(before.size, 100)
  for (const copy of copies) copy.recycle()
  const again = Array.from({ length: 100 }, () => new PooledCopy(Buffer.alloc(64 * kib)))
  const reused = again.filter(({ bytes }) => before.has(bytes.buffer)).length
  t.equal(reused, 32)
})
