/** A running timer: it calls back once, after a restart once more. */
export type Timer = Readonly<{ restart: () => void; stop: () => void }>

export type StartTimer = (ms: number, onTime: () => void) => Timer

/** Timers of the real clock. */
export const startTimer: StartTimer = (ms, onTime) => {
  const timeout = setTimeout(onTime, ms)
  return {
    restart: () => {
      timeout.refresh()
    },
    stop: () => clearTimeout(timeout),
  }
}
