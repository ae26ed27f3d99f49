/** A turn's part is no less than this, however short the rest of the turn was. */
const leastMs = 0.5

/**
 * Works off what comes in bursts, some of it in each turn of the event loop: for as long as the rest of the turn took.
 * So whoever else waits is held up by twice the time at most, and a burst gets on however busy the others are.
 */
export class Bursts<Item> {
  readonly #work: (item: Item) => void
  readonly #monotonicMs: () => number
  #waiting: Item[] = []
  #isPlanned = false
  /** Of this turn. */
  #spentMs = 0
  /** From then on time is the others'. */
  #sinceMs = 0

  constructor(work: (item: Item) => void, monotonicMs = () => performance.now()) {
    this.#work = work
    this.#monotonicMs = monotonicMs
  }

  /** Does it now, unless this turn has had its part; in any case after what was added before. */
  add(item: Item): void {
    const startedMs = this.#monotonicMs()
    if (!this.#isPlanned) this.#plan(startedMs, 0)
    if (this.#spentMs >= leastMs || this.#waiting.length > 0) {
      this.#waiting.push(item)
      return
    }
    this.#work(item)
    const tookMs = this.#monotonicMs() - startedMs
    this.#spentMs += tookMs
    this.#sinceMs += tookMs
  }

  /** Takes back what has not been done. */
  clear(): readonly Item[] {
    const waiting = this.#waiting
    this.#waiting = []
    return waiting
  }

  #plan(nowMs: number, spentMs: number): void {
    this.#isPlanned = true
    this.#sinceMs = nowMs
    this.#spentMs = spentMs
    setImmediate(this.#nextTurn)
  }

  readonly #nextTurn = (): void => {
    this.#isPlanned = false
    if (this.#waiting.length === 0) return
    const startedMs = this.#monotonicMs()
    const partMs = Math.max(leastMs, startedMs - this.#sinceMs)
    let nowMs = startedMs
    try {
      for (let item = this.#waiting.shift(); item !== undefined; item = this.#waiting.shift()) {
        this.#work(item)
        nowMs = this.#monotonicMs()
        if (nowMs - startedMs >= partMs) break
      }
    } finally {
      // Also after the last of them: what is added in this turn waits for the next one.
      this.#plan(nowMs, nowMs - startedMs)
    }
  }
}
