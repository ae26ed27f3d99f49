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
 * Handles signals before the gateway serves. No work is under way yet, so it stops at once. The first process of a
 * container ignores signals without a handler, and would otherwise serve until it is killed.
 */
export function takeEarlySignals(): void {
  for (const [signal, handler] of handlers) process.on(signal, handler)
}

export function leaveEarlySignals(): Readonly<{ isReloadAsked: boolean }> {
  for (const [signal, handler] of handlers) process.off(signal, handler)
  return { isReloadAsked }
}
