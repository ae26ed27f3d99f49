import { ownTurn } from './background-turns.ts'

/** Above one item of most works, and below what a request feels. */
const sliceMs = 0.5

export async function inSlices<Item>(
  items: Iterable<Item>,
  work: (item: Item) => void | Promise<void>,
  monotonicMs = () => performance.now(),
): Promise<void> {
  let untilMs = monotonicMs() + sliceMs
  for (const item of items) {
    const working = work(item)
    if (working instanceof Promise) await working
    if (monotonicMs() < untilMs) continue
    await ownTurn()
    untilMs = monotonicMs() + sliceMs
  }
}
