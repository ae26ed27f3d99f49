import t from 'tap'
import type { SearchCandidate } from '../../../gateway/listeners/decision/authzen/candidates.ts'
import { collectPage, createSearchRoom } from '../../../gateway/listeners/decision/authzen/search.ts'

/** A list of `count` candidates, of which every `nth` is allowed. */
function listOf(count: number, nth: number, onAsked: () => void = () => undefined) {
  const parts: number[] = []
  const list = async (after: string, limit: number): Promise<readonly SearchCandidate[]> => {
    parts.push(limit)
    const first = after === '' ? 1 : Number(after) + 1
    return Array.from({ length: Math.max(0, Math.min(limit, count - first + 1)) }, (_, index) => ({
      position: String(first + index),
      found: { name: String(first + index) },
      isAllowed: async () => {
        onAsked()
        return (first + index) % nth === 0
      },
    }))
  }
  return { list, parts }
}

const noTime = () => 0

t.test('a page judges at most 1,000 candidates, and the next page goes on after them', async (t) => {
  let asked = 0
  const { list, parts } = listOf(2_500, 2_400, () => {
    asked += 1
  })
  const first = await collectPage(list, '', 100, noTime)
  t.same(first, { results: [], next: '1000' })
  t.equal(asked, 1_000)
  t.equal(
    parts.reduce((sum, limit) => sum + limit, 0),
    1_000,
  )
  const second = await collectPage(list, first.next ?? '', 100, noTime)
  t.same(second, { results: [], next: '2000' })
  t.same(await collectPage(list, second.next ?? '', 100, noTime), { results: [{ name: '2400' }], next: undefined })
})

t.test('a page ends at its limit', async (t) => {
  const { list } = listOf(7, 1)
  const names = async (start: string, limit: number) => {
    const { results, next } = await collectPage(list, start, limit, noTime)
    return [results.map((found) => ('name' in found ? found.name : '')).join(' '), next]
  }
  t.same(await names('', 3), ['1 2 3', '3'])
  t.same(await names('3', 3), ['4 5 6', '6'])
  t.same(await names('6', 3), ['7', undefined])
  t.same(await names('', 7), ['1 2 3 4 5 6 7', undefined])
  t.same(await names('', 0), ['', ''])
})

t.test('a search gives way to other work after 5 ms of a turn', async (t) => {
  let nowMs = 0
  const { list } = listOf(100, 1, () => {
    nowMs += 1
  })
  let turns = 0
  let isDone = false
  const count = () => {
    turns += 1
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  await collectPage(list, '', 100, () => nowMs)
  isDone = true
  t.ok(turns >= 20, `${turns} turns of others during 100 ms`)
  turns = 0
  isDone = false
  setImmediate(count)
  await collectPage(list, '', 100, noTime)
  isDone = true
  t.ok(turns <= 2, 'a short search needs none')
})

t.test('searches under way are bounded for a caller, for an organization and in all', async (t) => {
  const { enter } = createSearchRoom()
  const refusal = { code: 'rate_limited', status: 429, details: { retryAfter: '1' } }
  const refuses = (caller: number | string, organizationId: number) =>
    t.throws(() => enter({ caller, organizationId }), refusal, `${caller} in ${organizationId}`)
  const first = enter({ caller: 1, organizationId: 1 })
  enter({ caller: 1, organizationId: 1 })
  refuses(1, 1)
  first()
  enter({ caller: 1, organizationId: 1 })
  for (const caller of ['1', '1']) enter({ caller, organizationId: 1 })
  refuses(2, 1)
  const program = enter({ caller: 'program', organizationId: 2 })
  enter({ caller: 'program', organizationId: 3 })
  refuses('program', 4)
  program()
  const more = Array.from({ length: 11 }, (_, index) => enter({ caller: 100 + index, organizationId: 100 + index }))
  refuses(200, 200)
  for (const leave of more) leave()
  enter({ caller: 200, organizationId: 200 })
})
