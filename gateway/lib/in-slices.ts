import { setImmediate as nextTurn } from 'node:timers/promises'

const sliceMs = 0.5

/** Works through many items by time, a slice in each turn of the event loop, so that requests go in between. */
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
    await nextTurn()
    untilMs = monotonicMs() + sliceMs
  }
}
