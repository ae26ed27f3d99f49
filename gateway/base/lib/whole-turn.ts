import { guarded } from '../fault/guarded.ts'

/**
 * Calls back once a whole turn of the event loop is over: its timers, its reading of all sockets, and the callbacks of
 * these. A member that comes amid a turn waits for the rest of it first, since some sockets were read before.
 */
export class WholeTurn<Member> {
  readonly #isOver: (member: Member) => void
  readonly #atEndOfTurn: (work: () => void) => void
  #coming: Member[] = []
  #waiting: Member[] = []
  #isPlanned = false

  constructor(
    isOver: (member: Member) => void,
    onFault?: (member: Member) => void,
    atEndOfTurn: (work: () => void) => void = setImmediate,
  ) {
    this.#isOver = guarded('upstream', isOver, onFault)
    this.#atEndOfTurn = atEndOfTurn
  }

  add(member: Member): void {
    this.#coming.push(member)
    this.#plan()
  }

  #plan(): void {
    if (this.#isPlanned) return
    this.#isPlanned = true
    this.#atEndOfTurn(this.#endTurn)
  }

  readonly #endTurn = guarded('upstream', (): void => {
    this.#isPlanned = false
    const over = this.#waiting
    this.#waiting = this.#coming
    this.#coming = []
    if (this.#waiting.length > 0) this.#plan()
    for (const member of over) this.#isOver(member)
  })
}
