import { guarded } from '../fault/guarded.ts'
import { lengthOf, takeFirst, type WaitingLine } from './line.ts'

/** Works have slices of half a millisecond, so that a long turn gives about 3 percent of its time to them. */
const msOfTurnPerWork = 16

/**
 * Calls back in a later turn of the event loop, which has one such work. Works that go in slices so delay a request together
 * no more than one of them does. Only a long turn, of many requests, has several, beside which they must still proceed.
 */
export class BackgroundTurns {
  readonly #monotonicMs: () => number
  readonly #waiting: WaitingLine<() => void> = { items: [], next: 0 }
  #isPlanned = false
  #plannedAtMs = 0

  constructor(monotonicMs = () => performance.now()) {
    this.#monotonicMs = monotonicMs
  }

  readonly add = (work: () => void): void => {
    this.#waiting.items.push(guarded('timer', work))
    this.#plan()
  }

  #plan(): void {
    if (this.#isPlanned) return
    this.#isPlanned = true
    this.#plannedAtMs = this.#monotonicMs()
    setImmediate(this.#nextTurn)
  }

  readonly #nextTurn = guarded('timer', (): void => {
    this.#isPlanned = false
    const turnMs = this.#monotonicMs() - this.#plannedAtMs
    const most = Math.max(1, Math.floor(turnMs / msOfTurnPerWork))
    for (let left = Math.min(most, lengthOf(this.#waiting)); left > 0; left -= 1) takeFirst(this.#waiting)?.()
    if (lengthOf(this.#waiting) > 0) this.#plan()
  })
}

export const { add: inOwnTurn } = new BackgroundTurns()

export const ownTurn = (): Promise<void> => new Promise(inOwnTurn)
