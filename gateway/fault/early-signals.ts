import { endProcess } from './end-process.ts'
import { guarded } from './guarded.ts'

let isReloadAsked = false

const stop = guarded('process', () => endProcess(0))

const askForReload = guarded('process', () => {
  isReloadAsked = true
})

const handlers = [
  ['SIGTERM', stop],
  ['SIGINT', stop],
  ['SIGHUP', askForReload],
] as const

/**
 * Takes the signals of a gateway that does not serve yet: nothing is under way, so it stops at once. The first process of
 * a container would not even hear a signal that it has no handler for, and would serve until it is killed.
 */
export function takeEarlySignals(): void {
  for (const [signal, handler] of handlers) process.on(signal, handler)
}

/** Leaves the signals to the handlers of a gateway that serves. Says whether a reload was asked for before. */
export function leaveEarlySignals(): Readonly<{ isReloadAsked: boolean }> {
  for (const [signal, handler] of handlers) process.off(signal, handler)
  return { isReloadAsked }
}
