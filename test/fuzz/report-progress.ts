/** Time between two lines of progress. */
const everyMs = 10_000

/** Passes items on, and prints to standard error every few seconds how many there were, and how many a second. */
export function* reportProgress<Item>(items: Iterable<Item>, name: string): Generator<Item> {
  const startedMs = performance.now()
  let toldAtMs = startedMs
  let done = 0
  for (const item of items) {
    yield item
    done += 1
    const nowMs = performance.now()
    if (nowMs - toldAtMs < everyMs) continue
    toldAtMs = nowMs
    const seconds = (nowMs - startedMs) / 1_000
    console.error(`${name}: ${done} in ${Math.round(seconds)} s, ${Math.round(done / seconds)} a second`)
  }
}
