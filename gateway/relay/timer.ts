import { performance } from 'node:perf_hooks'
import { guarded } from '../fault/guarded.ts'

/** A running timer: it calls back once, after a restart once more, and never again once it was stopped. */
export type Timer = Readonly<{ restart: () => void; stop: () => void }>

export type StartTimer = (ms: number, onTime: () => void) => Timer

/** Timers of the real clock. */
export const startTimer: StartTimer = (ms, onTime) => new RealTimer(ms, onTime)

/**
 * A class because there is one for each stream: two closures are as large again as the rest of it. Each event restarts it,
 * so a restart is a number: Node's own timer looks at it when its time has come, and waits for the rest.
 */
class RealTimer implements Timer {
  readonly #ms: number
  #onTime: (() => void) | undefined
  #dueMs = 0
  #timeout: NodeJS.Timeout | undefined

  constructor(ms: number, onTime: () => void) {
    this.#ms = ms
    this.#onTime = onTime
    this.restart()
  }

  restart(): void {
    if (!this.#onTime) return
    this.#dueMs = performance.now() + this.#ms
    this.#timeout ??= setTimeout(look, this.#ms, this)
  }

  stop(): void {
    clearTimeout(this.#timeout)
    this.#onTime = undefined
  }

  look(): void {
    const restMs = Math.ceil(this.#dueMs - performance.now())
    this.#timeout = restMs > 0 ? setTimeout(look, restMs, this) : undefined
    if (!this.#timeout) this.#onTime?.()
  }
}

const look = guarded('timer', (timer: RealTimer) => timer.look())
