import type { Count, Usage } from './count.ts'

type Window = { used: number; readonly endsAtMs: number }

export type MemoryOptions = Readonly<{
  maxBudgets: number
  monotonicMs: () => number
}>

/**
 * Counts in this process alone. The memory counter of `rate-limiter-flexible` has a timer for each budget, no bound,
 * and its own clock.
 */
export function countInMemory({ maxBudgets, monotonicMs }: MemoryOptions): Count {
  const windows = new Map<string, Window>()
  const open = (key: string, nowMs: number, seconds: number): Window => {
    const known = windows.get(key)
    if (known) windows.delete(key)
    const isOver = !known || known.endsAtMs <= nowMs
    const window = isOver ? { used: 0, endsAtMs: nowMs + seconds * 1_000 } : known
    windows.set(key, window)
    return window
  }
  return async ({ name, seconds }, owner): Promise<Usage> => {
    const nowMs = monotonicMs()
    const window = open(`${name}:${seconds}:${owner}`, nowMs, seconds)
    window.used += 1
    if (windows.size > maxBudgets) dropOldest(windows)
    return { used: window.used, resetMs: window.endsAtMs - nowMs }
  }
}

function dropOldest(windows: Map<string, Window>): void {
  for (const key of windows.keys()) {
    windows.delete(key)
    return
  }
}
