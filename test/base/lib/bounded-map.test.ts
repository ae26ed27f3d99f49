import t from 'tap'
import { createBoundedMap } from '../../../gateway/base/lib/bounded-map.ts'

const value = (name: string) => ({ name })

t.test('an entry is found, and replaced under its own key', async (t) => {
  const map = createBoundedMap<{ name: string }>(3)
  t.equal(map.get('a'), undefined)
  map.set('a', value('first'))
  map.set('b', value('other'))
  map.set('a', value('second'))
  t.same([map.get('a'), map.get('b'), map.size()], [value('second'), value('other'), 2])
})

t.test('a full map drops what was not used for longest', async (t) => {
  const map = createBoundedMap<{ name: string }>(3)
  for (const key of ['a', 'b', 'c']) map.set(key, value(key))
  map.get('a')
  map.set('d', value('d'))
  t.same(
    ['a', 'b', 'c', 'd'].map((key) => map.get(key)?.name),
    ['a', undefined, 'c', 'd'],
  )
})

t.test('however much comes, no more is kept than was allowed', async (t) => {
  const map = createBoundedMap<{ name: string }>(50)
  for (let index = 0; index < 10_000; index++) map.set(`key-${index}`, value('x'))
  t.equal(map.size(), 50)
  t.ok(map.get('key-9999'))
})

t.test('a heavy value counts for many entries, and never for more than there are', async (t) => {
  const map = createBoundedMap<{ name: string; weight: number }>(4, ({ weight }) => weight)
  for (const key of ['a', 'b', 'c', 'd']) map.set(key, { name: key, weight: 0 })
  t.equal(map.size(), 4, 'each value counts once at least')
  map.set('e', { name: 'e', weight: 3 })
  t.same(
    ['a', 'b', 'c', 'd', 'e'].filter((key) => map.get(key)),
    ['d', 'e'],
  )
  map.set('f', { name: 'f', weight: 100 })
  t.same(
    ['d', 'e', 'f'].filter((key) => map.get(key)),
    ['f'],
  )
})
