import { endProcess } from '../../base/fault/end-process.ts'
import type { Drain } from './drain.ts'

/** A process in an unknown state takes nothing new, but requests under way may still end well. */
const hurried = { delayMs: 0, timeoutMs: 5_000 }

/** In an unknown state the drain itself may hang. Then the process ends without it. */
const graceMs = 5_000

const endNow = (): void => {
  void endProcess(1)
}

/**
 * An uncaught error leaves the process in an unknown state. It logs the error, drains, and ends with 1, so that its
 * supervisor starts it again. A second error ends it at once.
 */
export function handleUncaught(report: (error: unknown) => void, drain: Drain): void {
  let isEnding = false
  const end = (error: unknown): void => {
    report(error)
    if (isEnding) {
      endNow()
      return
    }
    isEnding = true
    process.once('exit', () => {
      process.exitCode = 1
    })
    setTimeout(endNow, hurried.timeoutMs + graceMs)
    drain(hurried).catch(report).finally(endNow)
  }
  process.on('uncaughtException', end)
  process.on('unhandledRejection', end)
}
