import { performance } from 'node:perf_hooks'
import { guarded } from '../fault/guarded.ts'

export type Timer = Readonly<{ restart: () => void; stop: () => void }>

export type StartTimer = (ms: number, onTime: () => void) => Timer

export const startTimer: StartTimer = (ms, onTime) => new RealTimer(ms, onTime)

/**
 * A class, because each stream has a timer and two closures would double the stream's memory. Every event restarts the
 * timer, so a restart only sets a number; when Node's timer fires, it waits for the rest.
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
