import { Deadline } from '../../base/lib/deadline.ts'

export type Timer = Readonly<{ restart: () => void; stop: () => void }>

export type StartTimer = <Target>(ms: number, onTime: (target: Target) => void, target: Target) => Timer

export const startTimer: StartTimer = (ms, onTime, target) => new SharedTimer(ms, onTime, target)

/** Every event restarts the timer of its stream, so a restart only sets a number, and streams share timers of Node. */
class SharedTimer<Target> extends Deadline implements Timer {
  readonly #ms: number
  readonly #onTime: (target: Target) => void
  readonly #stream: Target
  #isStopped = false

  constructor(ms: number, onTime: (target: Target) => void, stream: Target) {
    super()
    this.#ms = ms
    this.#onTime = onTime
    this.#stream = stream
    this.restart()
  }

  restart(): void {
    if (!this.#isStopped) this.set(this.#ms, this.#stream, this.#onTime)
  }

  override stop(): void {
    this.#isStopped = true
    this.discard()
  }
}
