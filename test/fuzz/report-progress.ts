/** How often a campaign says how far it is. */
const everyMs = 10_000

/** Says on standard error how much of it is done, and how fast that goes: a line every few seconds. */
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
