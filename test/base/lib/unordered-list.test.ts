// In a process of its own: it looks for garbage.
import t from 'tap'
import { UnorderedList } from '../../../gateway/base/lib/unordered-list.ts'
import { measureSurvivors } from '../../run/boot/survivors.ts'

t.test('each member that was added and not removed is there', async (t) => {
  const list = new UnorderedList<string>()
  const places = ['a', 'b', 'c', 'd'].map((name) => list.add(name))
  const leave = (index: number): void => {
    const place = places[index]
    if (place) list.remove(place)
  }
  t.equal(list.size, 4)
  leave(1)
  t.strictSame([...list].sort(), ['a', 'c', 'd'])
  leave(1)
  t.equal(list.size, 3, 'no member leaves twice')
  leave(3)
  leave(0)
  t.strictSame([...list], ['c'])
  leave(2)
  t.strictSame([...list], [])
  list.add('e')
  t.strictSame([...list], ['e'])
})

t.test('members may leave while one goes through them', async (t) => {
  const list = new UnorderedList<string>()
  const places = new Map(['a', 'b', 'c'].map((name) => [name, list.add(name)]))
  const met: string[] = []
  for (const member of list) {
    met.push(member)
    for (const place of places.values()) list.remove(place)
  }
  t.strictSame(met.sort(), ['a', 'b', 'c'])
  t.equal(list.size, 0)
})

t.test('a visit meets each member, even if others are removed meanwhile', async (t) => {
  const list = new UnorderedList<string>()
  const places = new Map(['a', 'b', 'c', 'd'].map((name) => [name, list.add(name)]))
  const met: string[] = []
  list.visit((member) => {
    met.push(member)
    const place = places.get(member)
    if (place) list.remove(place)
  })
  t.strictSame(met.sort(), ['a', 'b', 'c', 'd'])
  t.equal(list.size, 0)
})

t.test('members that have left do not outlive a scavenge', async (t) => {
  const list = new UnorderedList<object>()
  const come = (member: object) => {
    const place = list.add(member)
    return () => list.remove(place)
  }
  t.ok((await measureSurvivors(come)) < 1, 'of a list')
  const set = new Set<object>()
  const enter = (member: object) => {
    set.add(member)
    return () => set.delete(member)
  }
  t.ok((await measureSurvivors(enter)) > 1, 'of a set they do: should it learn better, it is as good')
})
