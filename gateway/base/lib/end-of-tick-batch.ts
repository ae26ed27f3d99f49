import { guarded } from '../fault/guarded.ts'

/** A larger batch gains nothing more, and its first item would wait longer. */
export const maxBatchSize = 16

/**
 * Runs queued work at the end of a turn of the event loop, item after item. Interleaved with requests, it would evict
 * their data from the processor's caches, and they its own. A lone item waits only for the turn that queued it. Netty
 * does this for writes, as flush consolidation.
 */
export class EndOfTickBatch<Item> {
  readonly #work: (item: Item) => void
  #waiting: Item[] = []
  #isPlanned = false

  constructor(work: (item: Item) => void, onFault?: (item: Item) => void) {
    this.#work = guarded('timer', work, onFault)
  }

  add(item: Item): void {
    if (this.#waiting.length >= maxBatchSize) this.#empty()
    this.#waiting.push(item)
    if (this.#isPlanned) return
    this.#isPlanned = true
    setImmediate(this.#endTurn)
  }

  readonly #endTurn = guarded('timer', (): void => {
    this.#isPlanned = false
    this.#empty()
  })

  #empty(): void {
    const items = this.#waiting
    this.#waiting = []
    for (const item of items) this.#work(item)
  }
}
