import { askAgainMs } from './budget.ts'

/**
 * How an outsider's answer stands. The times of the last two are those of one longest unknown time, counted from when the
 * answer was due.
 *
 * | State | Since | Becomes |
 * |---|---|---|
 * | `held` | the outsider answered | `due` when the answer's own time is over, or at once when the question changes |
 * | `due` | the answer grew old, or the rest after a failure is over | `waiting` when it is asked |
 * | `waiting` | a question is under way, or the latest failed | `held` by an answer, `due` after the rest |
 * | `lost` | the answer is overdue for longer than unknown rights are borne | what rests on it ends; `held` by an answer that comes first |
 */
export type OutsideState = 'held' | 'due' | 'waiting' | 'lost'

/** An answer of an issuer or a decision point on which something open rests: held, grown old, asked for again, given up. */
export class OutsideAnswer {
  readonly #longestUnknownMs: number
  #dueAtMs: number
  #askNotBeforeMs = Number.NEGATIVE_INFINITY

  constructor(dueAtMs: number, longestUnknownMs: number) {
    this.#dueAtMs = dueAtMs
    this.#longestUnknownMs = longestUnknownMs
  }

  stateAt(nowMs: number): OutsideState {
    const overdueMs = nowMs - this.#dueAtMs
    if (overdueMs < 0) return 'held'
    if (overdueMs > this.#longestUnknownMs) return 'lost'
    return nowMs >= this.#askNotBeforeMs ? 'due' : 'waiting'
  }

  noteAsked(): void {
    this.#askNotBeforeMs = Number.POSITIVE_INFINITY
  }

  noteAnswered(dueAtMs: number): void {
    this.#dueAtMs = dueAtMs
    this.#askNotBeforeMs = Number.NEGATIVE_INFINITY
  }

  noteFailed(nowMs: number): void {
    this.#askNotBeforeMs = nowMs + Math.min(askAgainMs, this.#longestUnknownMs / 4)
  }

  /** The question is another one now, or a change names its subject: the answer counts no longer. */
  expire(nowMs: number): void {
    this.#dueAtMs = Math.min(this.#dueAtMs, nowMs)
    this.#askNotBeforeMs = Number.NEGATIVE_INFINITY
  }
}
