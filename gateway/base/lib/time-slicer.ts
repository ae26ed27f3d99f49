import { guarded } from '../fault/guarded.ts'
import { lengthOf, takeFirst, type WaitingLine } from './line.ts'

export type ChoosePart = (turnMs: number) => number

const usualPart: ChoosePart = () => 1

/**
 * Works through bursts by time and not by number, some items in each turn of the event loop. Other requests then never
 * wait for a whole burst, and a burst proceeds however busy the process is.
 */
export class TimeSlicer<Item> {
  readonly #work: (item: Item) => void
  readonly #monotonicMs: () => number
  readonly #choosePart: ChoosePart
  readonly #inNextTurn: (work: () => void) => void
  #partMs: number
  #turnMs: number | undefined
  #waiting: WaitingLine<Item> = { items: [], next: 0 }
  #isPlanned = false
  #spentMs = 0

  constructor(
    work: (item: Item) => void,
    onFault?: (item: Item) => void,
    monotonicMs = () => performance.now(),
    choosePart = usualPart,
    inNextTurn: (work: () => void) => void = setImmediate,
  ) {
    this.#work = guarded('timer', work, onFault)
    this.#monotonicMs = monotonicMs
    this.#choosePart = choosePart
    this.#inNextTurn = inNextTurn
    this.#partMs = choosePart(0)
  }

  get size(): number {
    return lengthOf(this.#waiting)
  }

  add(item: Item): void {
    if (!this.#isPlanned) this.#plan(0)
    if (this.#spentMs >= this.#partMs || this.size > 0) {
      this.#waiting.items.push(item)
      return
    }
    const startedMs = this.#monotonicMs()
    this.#work(item)
    this.#spentMs += this.#monotonicMs() - startedMs
  }

  clear(): readonly Item[] {
    const { items, next } = this.#waiting
    this.#waiting = { items: [], next: 0 }
    return items.slice(next)
  }

  #plan(spentMs: number): void {
    this.#isPlanned = true
    this.#spentMs = spentMs
    this.#inNextTurn(this.#nextTurn)
  }

  readonly #nextTurn = guarded('timer', (): void => {
    this.#isPlanned = false
    const startedMs = this.#monotonicMs()
    this.#partMs = this.#choosePart(this.#turnMs === undefined ? 0 : startedMs - this.#turnMs)
    this.#turnMs = this.size === 0 ? undefined : startedMs
    if (this.size === 0) return
    let spentMs = 0
    while (this.size > 0) {
      this.#work(takeFirst(this.#waiting) as Item) // the line is not empty
      spentMs = this.#monotonicMs() - startedMs
      if (spentMs >= this.#partMs) break
    }
    this.#plan(spentMs)
  })
}
