import { guarded, reportFault } from '../../base/fault/guarded.ts'
import { ownTurn } from '../../base/lib/background-turns.ts'
import { longestRestMs, sliceMs, spreadMs } from '../../rights/budget.ts'
import { Turns } from '../../rights/turns.ts'
import type { AccessEnd, OpenExchange } from './open-exchange.ts'

export type EndOpen = (open: OpenExchange, end: AccessEnd) => void

type Condemned = Readonly<{ open: OpenExchange; end: AccessEnd }>

/**
 * Ends exchanges, the first at once. A crowd's ends are spread, since each also closes two connections: other requests go
 * in between, and so do the ends of other organizations, which take turns.
 */
export class PacedEnds {
  readonly #end: EndOpen
  readonly #monotonicMs: () => number
  readonly #condemned = new Turns<Condemned>()
  #spreadUntilMs = 0
  #isEnding = false

  constructor(end: EndOpen, monotonicMs: () => number) {
    this.#end = guarded<OpenExchange, AccessEnd>('timer', end)
    this.#monotonicMs = monotonicMs
  }

  /** The first that is due sets the pace of all that wait: its second may have passed in part before it was judged. */
  add(open: OpenExchange, end: AccessEnd, dueAtMs: number): void {
    const nowMs = this.#monotonicMs()
    if (this.#condemned.size === 0) this.#spreadUntilMs = nowMs + spreadMs
    this.#spreadUntilMs = Math.min(this.#spreadUntilMs, Math.max(nowMs, dueAtMs))
    this.#condemned.push(open.owner, { open, end })
    if (!this.#isEnding) this.#endAll().catch((error: unknown) => reportFault('timer', error))
  }

  async #endAll(): Promise<void> {
    this.#isEnding = true
    while (this.#condemned.size > 0) {
      const ended = this.#endSome()
      await this.#rest(ended)
    }
    this.#isEnding = false
  }

  async #rest(ended: number): Promise<void> {
    const count = this.#condemned.size
    const leftMs = this.#spreadUntilMs - this.#monotonicMs()
    const restMs = count === 0 ? 0 : Math.min(longestRestMs, (leftMs * ended) / count)
    if (restMs >= 1) await new Promise((resolve) => setTimeout(resolve, restMs))
    await ownTurn()
  }

  #endSome(): number {
    const untilMs = this.#monotonicMs() + sliceMs
    let ended = 0
    while (this.#condemned.size > 0 && (ended === 0 || this.#monotonicMs() < untilMs)) {
      for (const { open, end } of this.#condemned.take(1)) this.#end(open, end)
      ended += 1
    }
    return ended
  }
}
