import { guarded } from '../fault/guarded.ts'
import { gatherMs } from '../rights/budget.ts'
import { Moments } from '../rights/heard.ts'
import type { ExchangeRegister } from './exchange-register.ts'
import { type DecidingKind, findNaming } from './heard-changes.ts'
import type { OpenExchange } from './open-exchange.ts'

export type HeardScanOptions = Readonly<{
  visit: ExchangeRegister['visit']
  monotonicMs: () => number
  onNamed: (open: OpenExchange, namedAtMs: number) => void
  onScanned: () => void
}>

/**
 * Finds the exchanges that changes name. One scan is under way at a time, and the next has all that was heard meanwhile.
 * A burst of changes would otherwise begin scans faster than they end.
 */
export class HeardScan {
  readonly #options: HeardScanOptions
  #heard: Moments | undefined
  #isUnderWay = false

  constructor(options: HeardScanOptions) {
    this.#options = options
  }

  add(kind: DecidingKind, id: number): void {
    this.#heard ??= new Moments()
    this.#heard.note(kind, id, Math.ceil(this.#options.monotonicMs()))
    if (!this.#isUnderWay) this.#begin(this.#heard)
  }

  #begin(heard: Moments): void {
    this.#isUnderWay = true
    setTimeout(
      guarded('timer', () => this.#scan(heard)),
      gatherMs,
    ).unref()
  }

  #scan(heard: Moments): void {
    const { visit, onNamed, onScanned } = this.#options
    this.#heard = undefined
    visit(
      (open) => {
        const namedAtMs = findNaming(open, heard)
        if (namedAtMs > 0) onNamed(open, namedAtMs)
      },
      () => {
        this.#isUnderWay = false
        if (this.#heard) this.#begin(this.#heard)
        onScanned()
      },
    )
  }
}
