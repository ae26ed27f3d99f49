import { endProcess } from '../fault/end-process.ts'
import type { Drain } from './gateway.ts'

/** What is under way may still end well; nothing new is taken by a process that is not itself any more. */
const hurried = { delayMs: 0, timeoutMs: 5_000 }

/** For the drain to end all the same: its last words, and the last writes. */
const graceMs = 5_000

const endNow = (): void => {
  void endProcess(1)
}

/**
 * What nobody caught leaves the process in a state that nobody has thought of: it says so, finishes what is under way,
 * and ends with 1, for whoever started it to start it again. A second fault ends it at once.
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
    // Whoever else ends the process may think that all is well.
    process.once('exit', () => {
      process.exitCode = 1
    })
    setTimeout(endNow, hurried.timeoutMs + graceMs)
    drain(hurried).catch(report).finally(endNow)
  }
  process.on('uncaughtException', end)
  process.on('unhandledRejection', end)
}
