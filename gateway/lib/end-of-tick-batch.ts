import { guarded } from '../fault/guarded.ts'

/** So many are done together. More gain no more, and the first of them would wait longer. */
export const maxBatchSize = 16

/**
 * Does what comes up in a turn of the event loop at its end, one after the other, for work that needs much of the
 * processor's caches: between the work of two requests each of both would have to bring its own back. Who comes alone
 * waits for nothing but the turn that it began itself. Netty has it for writes, as flush consolidation.
 */
export class EndOfTickBatch<Item> {
  readonly #work: (item: Item) => void
  #waiting: Item[] = []
  #isPlanned = false

  /** What the work throws ends that one item, by `onFault`. */
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
