/** A running timer: it calls back once, after a restart once more. */
export type Timer = Readonly<{ restart: () => void; stop: () => void }>

export type StartTimer = (ms: number, onTime: () => void) => Timer

/** Timers of the real clock. */
export const startTimer: StartTimer = (ms, onTime) => new RealTimer(setTimeout(onTime, ms))

/** A class because there is one for each stream: two closures are as large again as the rest of it. */
class RealTimer implements Timer {
  readonly #timeout: NodeJS.Timeout

  constructor(timeout: NodeJS.Timeout) {
    this.#timeout = timeout
  }

  restart(): void {
    this.#timeout.refresh()
  }

  stop(): void {
    clearTimeout(this.#timeout)
  }
}
