import t from 'tap'
import { firstSlotOf, mergeRings, SlotRing, slotCount } from '../../../../gateway/listeners/admin/history/slot-ring.ts'

t.test('a ring tells its counts by groups of slots, the last minute and the ten minutes before it', async (t) => {
  const ring = new SlotRing(2)
  for (const slot of [100, 100, 101, 160, 165]) ring.add(slot, 0)
  ring.add(165, 1)
  const range = { toSlot: 165, slots: 90, step: 2 }
  t.same(ring.read(range), {
    rows: [
      [100, 3, 0],
      [160, 1, 0],
      [164, 1, 1],
    ],
    recent: [2, 1],
    before: [3, 0],
  })
  t.equal(firstSlotOf(range), 76)
  t.equal(firstSlotOf({ ...range, toSlot: 166 }), 76, 'a group stays the same while time goes on')
})

t.test(
  'a slot that is an hour old counts no more, and an hour of counts takes no more memory than a minute',
  async (t) => {
    const ring = new SlotRing(1)
    const range = (toSlot: number) => ({ toSlot, slots: slotCount, step: 1 })
    for (let slot = 0; slot < 3 * slotCount; slot++) ring.add(slot, 0)
    t.equal(ring.read(range(3 * slotCount - 1)).rows.length, slotCount)
    t.same(ring.read(range(4 * slotCount)).rows, [], 'nothing of the last round is left')
    ring.add(4 * slotCount, 0)
    t.same(ring.read(range(4 * slotCount)).rows, [[4 * slotCount, 1]])
  },
)

t.test('the counts of several processes add up', async (t) => {
  const one = { rows: [[4, 1, 2]], recent: [1, 2], before: [] }
  const other = {
    rows: [
      [2, 1, 0],
      [4, 3, 0],
    ],
    recent: [3, 0],
    before: [5, 5],
  }
  t.same(mergeRings([one, other]), {
    rows: [
      [2, 1, 0],
      [4, 4, 2],
    ],
    recent: [4, 2],
    before: [5, 5],
  })
})
