import { guarded } from '../fault/guarded.ts'

/**
 * The part of a turn that is theirs, in milliseconds. Whatever else the turn takes: each of them leaves work for later,
 * and where their part grew with the rest of a turn, that would let it grow with itself.
 */
const partMs = 1

/**
 * Works off what comes in bursts, some of it in each turn of the event loop, by time and not by number: so nobody else
 * waits for all of a crowd, and a crowd gets on however busy the others are.
 */
export class Bursts<Item> {
  readonly #work: (item: Item) => void
  readonly #monotonicMs: () => number
  #waiting: Item[] = []
  #isPlanned = false
  /** Of this turn. */
  #spentMs = 0

  /** What the work throws ends that one item, by `onFault`. */
  constructor(work: (item: Item) => void, onFault?: (item: Item) => void, monotonicMs = () => performance.now()) {
    this.#work = guarded('timer', work, onFault)
    this.#monotonicMs = monotonicMs
  }

  /** Does it now, unless this turn has had its part; in any case after what was added before. */
  add(item: Item): void {
    if (!this.#isPlanned) this.#plan(0)
    if (this.#spentMs >= partMs || this.#waiting.length > 0) {
      this.#waiting.push(item)
      return
    }
    const startedMs = this.#monotonicMs()
    this.#work(item)
    this.#spentMs += this.#monotonicMs() - startedMs
  }

  /** Takes back what has not been done. */
  clear(): readonly Item[] {
    const waiting = this.#waiting
    this.#waiting = []
    return waiting
  }

  #plan(spentMs: number): void {
    this.#isPlanned = true
    this.#spentMs = spentMs
    setImmediate(this.#nextTurn)
  }

  readonly #nextTurn = guarded('timer', (): void => {
    this.#isPlanned = false
    if (this.#waiting.length === 0) return
    const startedMs = this.#monotonicMs()
    let spentMs = 0
    for (let item = this.#waiting.shift(); item !== undefined; item = this.#waiting.shift()) {
      this.#work(item)
      spentMs = this.#monotonicMs() - startedMs
      if (spentMs >= partMs) break
    }
    // Also after the last of them: what is added in this turn waits for the next one.
    this.#plan(spentMs)
  })
}
