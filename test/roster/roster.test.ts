import t from 'tap'
import { Roster } from '../../gateway/roster/roster.ts'
import { measureSurvivors } from '../support/survivors.ts'

t.test('whoever came and has not left is here', async (t) => {
  const roster = new Roster<string>()
  const places = ['a', 'b', 'c', 'd'].map((name) => roster.add(name))
  const leave = (index: number): void => {
    const place = places[index]
    if (place) roster.remove(place)
  }
  t.equal(roster.size, 4)
  leave(1)
  t.strictSame([...roster].sort(), ['a', 'c', 'd'])
  leave(1)
  t.equal(roster.size, 3, 'nobody leaves twice')
  leave(3)
  leave(0)
  t.strictSame([...roster], ['c'])
  leave(2)
  t.strictSame([...roster], [])
  roster.add('e')
  t.strictSame([...roster], ['e'])
})

t.test('members may leave while one goes through them', async (t) => {
  const roster = new Roster<string>()
  const places = new Map(['a', 'b', 'c'].map((name) => [name, roster.add(name)]))
  const met: string[] = []
  for (const member of roster) {
    met.push(member)
    for (const place of places.values()) roster.remove(place)
  }
  t.strictSame(met.sort(), ['a', 'b', 'c'])
  t.equal(roster.size, 0)
})

t.test('a visit meets each member, whoever leaves meanwhile', async (t) => {
  const roster = new Roster<string>()
  const places = new Map(['a', 'b', 'c', 'd'].map((name) => [name, roster.add(name)]))
  const met: string[] = []
  roster.visit((member) => {
    met.push(member)
    const place = places.get(member)
    if (place) roster.remove(place)
  })
  t.strictSame(met.sort(), ['a', 'b', 'c', 'd'])
  t.equal(roster.size, 0)
})

t.test('members that have left do not outlive a scavenge', async (t) => {
  const roster = new Roster<object>()
  const come = (member: object) => {
    const place = roster.add(member)
    return () => roster.remove(place)
  }
  t.ok((await measureSurvivors(come)) < 1, 'of a roster')
  const set = new Set<object>()
  const enter = (member: object) => {
    set.add(member)
    return () => set.delete(member)
  }
  t.ok((await measureSurvivors(enter)) > 1, 'of a set they do: should it learn better, it is as good')
})
