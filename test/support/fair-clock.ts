import type { Owner } from './owner.ts'

const tickMs = 10

/**
 * Milliseconds that this process could use. A busy machine delivers timers late, and a late tick counts little more than
 * one in time. So a bound on them holds what a program waits for, and not what its machine makes it wait for. On an idle
 * machine this is the wall clock.
 */
export function startFairClock(owner: Owner): () => number {
  let passedMs = 0
  let lastMs = performance.now()
  const look = (): number => {
    const nowMs = performance.now()
    passedMs += Math.min(nowMs - lastMs, 1.5 * tickMs)
    lastMs = nowMs
    return passedMs
  }
  const timer = setInterval(look, tickMs).unref()
  owner.teardown(() => clearInterval(timer))
  return look
}
