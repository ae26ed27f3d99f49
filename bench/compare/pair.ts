import { type Owner, withOwner } from '../../test/support/owner.ts'

/** One row of a side: a load that can be put on it, and what a request of it costs. */
export type Course = Readonly<{
  name: string
  /** Has V8 compile what is hot. */
  warmUp: () => Promise<unknown>
  /** Microseconds of the processor for a request, in one turn. */
  measure: () => Promise<number>
}>

/** Starts the processes of a side anew, with all of its rows. */
export type Side = (owner: Owner) => Promise<readonly Course[]>

/** The cost of a row on both sides; an entry for each restart. */
export type Paired = Readonly<{ name: string; left: number[]; right: number[] }>

export type PairOptions = Readonly<{
  restarts: number
  notify: (sentence: string) => void
  signal: AbortSignal
}>

/**
 * Starts both sides anew, again and again, and lets them take turns: left, right, right, left. Every other restart has
 * the opposite order, so that a drift hits both alike.
 */
export async function pair(
  left: Side,
  right: Side,
  { restarts, notify, signal }: PairOptions,
): Promise<readonly Paired[]> {
  const rows = new Map<string, Paired>()
  for (let restart = 0; restart < restarts; restart += 1)
    await withOwner(async (owner) => {
      const isLeftFirst = restart % 2 === 0
      notify(`start ${restart + 1} of ${restarts}`)
      const starts = isLeftFirst ? [left, right] : [right, left]
      const started: (readonly Course[])[] = []
      for (const start of starts) started.push(await start(owner))
      const [one = [], other = []] = started
      for (const [index, first] of one.entries()) {
        const second = other[index]
        if (second?.name !== first.name)
          throw new Error(`${first.name}: the other side has ${second?.name ?? 'nothing'}`)
        signal.throwIfAborted()
        await first.warmUp()
        await second.warmUp()
        const costs: number[] = []
        for (const course of [first, second, second, first]) {
          signal.throwIfAborted()
          costs.push(await course.measure())
        }
        const [a = 0, b = 0, c = 0, d = 0] = costs
        const order = isLeftFirst ? 'left, right, right, left' : 'right, left, left, right'
        notify(`${first.name} (${order}): ${costs.map((cost) => cost.toFixed(1)).join(', ')} us`)
        const row = rows.get(first.name) ?? { name: first.name, left: [], right: [] }
        rows.set(first.name, row)
        row.left.push((isLeftFirst ? a + d : b + c) / 2)
        row.right.push((isLeftFirst ? b + c : a + d) / 2)
      }
    })
  return [...rows.values()]
}
