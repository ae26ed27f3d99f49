import { guarded } from '../../base/fault/guarded.ts'
import { inOwnTurn } from '../../base/lib/background-turns.ts'
import { UnorderedList } from '../../base/lib/unordered-list.ts'
import { sliceMs } from '../../rights/budget.ts'
import { type ExchangePage, type ExchangeQuery, PageOfExchanges } from './list-exchanges.ts'
import { OpenExchange, type Opening } from './open-exchange.ts'

export type RegisterOptions = Readonly<{ monotonicMs: () => number; processId: number }>

/** All exchanges that are open in this process, visited in slices: there may be tens of thousands. */
export class ExchangeRegister {
  readonly #options: RegisterOptions
  readonly #open = new UnorderedList<OpenExchange>()
  #opened = 0
  /** Constant, so that the time of an opening does not move from one page of a list to the next. */
  readonly #epochMs: number

  constructor(options: RegisterOptions, wallAheadMs: number) {
    this.#options = options
    this.#epochMs = Math.round(wallAheadMs)
  }

  get size(): number {
    return this.#open.size
  }

  add(opening: Opening, nowMs: number, verifiedAtMs: number, heard: number): OpenExchange {
    const open = new OpenExchange(opening, this.#opened, nowMs, verifiedAtMs, heard)
    this.#opened += 1
    this.#open.addSlot(open)
    return open
  }

  remove(open: OpenExchange): void {
    this.#open.remove(open)
  }

  list(query: ExchangeQuery): Promise<ExchangePage> {
    return new Promise((resolve) => {
      const page = new PageOfExchanges(query, { epochMs: this.#epochMs, processId: this.#options.processId })
      this.visit(
        (open) => page.add(open),
        () => resolve(page.finish()),
      )
    })
  }

  visit(work: (open: OpenExchange) => void, onEnd: () => void): void {
    const { monotonicMs } = this.#options
    const look = guarded<OpenExchange>('timer', work)
    const goOn = guarded(
      'timer',
      (from: number): void => {
        const untilMs = monotonicMs() + sliceMs
        let visited = 0
        const place = this.#open.visitDown(from, (open) => {
          const wasEnded = open.end !== undefined
          look(open)
          visited += 1
          const isCheap = wasEnded || open.end === undefined
          return (isCheap && visited % 64 !== 0) || monotonicMs() < untilMs
        })
        if (place < 0) onEnd()
        else inOwnTurn(() => goOn(place))
      },
      () => onEnd(),
    )
    goOn(Number.MAX_SAFE_INTEGER)
  }
}
