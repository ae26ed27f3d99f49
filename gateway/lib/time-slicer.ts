import { guarded } from '../fault/guarded.ts'

/** The part of a turn that is spent on a burst, in milliseconds, by how long the turn before it took. */
export type ChoosePart = (turnMs: number) => number

/** For items that leave little work for later. */
const usualPart: ChoosePart = () => 1

/**
 * Works off what comes in bursts, some of it in each turn of the event loop, by time and not by number: so nobody else
 * waits for all of a crowd, and a crowd gets on however busy the others are.
 */
export class TimeSlicer<Item> {
  readonly #work: (item: Item) => void
  readonly #monotonicMs: () => number
  readonly #choosePart: ChoosePart
  #partMs: number
  /** When the last planned turn began; undefined where the loop may have been idle since. */
  #turnMs: number | undefined
  #waiting: Item[] = []
  #isPlanned = false
  /** Of this turn. */
  #spentMs = 0

  /** What the work throws ends that one item, by `onFault`. */
  constructor(
    work: (item: Item) => void,
    onFault?: (item: Item) => void,
    monotonicMs = () => performance.now(),
    choosePart = usualPart,
  ) {
    this.#work = guarded('timer', work, onFault)
    this.#monotonicMs = monotonicMs
    this.#choosePart = choosePart
    this.#partMs = choosePart(0)
  }

  /** Does it now, unless this turn has had its part; in any case after what was added before. */
  add(item: Item): void {
    if (!this.#isPlanned) this.#plan(0)
    if (this.#spentMs >= this.#partMs || this.#waiting.length > 0) {
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
    const startedMs = this.#monotonicMs()
    this.#partMs = this.#choosePart(this.#turnMs === undefined ? 0 : startedMs - this.#turnMs)
    this.#turnMs = this.#waiting.length === 0 ? undefined : startedMs
    if (this.#waiting.length === 0) return
    let spentMs = 0
    for (let item = this.#waiting.shift(); item !== undefined; item = this.#waiting.shift()) {
      this.#work(item)
      spentMs = this.#monotonicMs() - startedMs
      if (spentMs >= this.#partMs) break
    }
    // Also after the last of them: what is added in this turn waits for the next one.
    this.#plan(spentMs)
  })
}
