import type { Clock } from '../clock.ts'

/** Wakes everybody who waits for a change, whatever it is. */
export type Notifier = Readonly<{
  tell: () => void
  /** Resolves to whether there was news within that time. */
  next: (withinMs: number) => Promise<boolean>
}>

/** Who gives up is forgotten at once: a promise shared by all would remember them for as long as it hangs. */
export function createNotifier(after: Clock['after']): Notifier {
  const waiting = new Set<() => void>()
  return {
    tell: () => {
      for (const wake of waiting) wake()
    },
    next: (withinMs) =>
      new Promise((resolve) => {
        const end = (isNews: boolean): void => {
          callOff()
          waiting.delete(wake)
          resolve(isNews)
        }
        const wake = (): void => end(true)
        const callOff = after(Math.max(0, withinMs), () => end(false))
        waiting.add(wake)
      }),
  }
}
