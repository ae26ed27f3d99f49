import type { Clock } from '../../gateway/stages/authenticate/clock.ts'

/** A clock that moves when the test says so. */
export type SimulatedClock = Clock &
  Readonly<{
    /** Lets time pass: timers go off in their order, each with the time it has to wait for. */
    pass: (ms: number) => Promise<void>
    /** Sets the time of day, as an operator or NTP would; the monotonic clock goes on. */
    setNow: (now: Date) => void
    /** The number of timers that wait. */
    timers: () => number
  }>

/** Starts at some time that is neither zero nor today. */
export function createSimulatedClock(): SimulatedClock {
  let nowMs = 1_000_000
  let offsetMs = Date.parse('2031-02-03T04:05:06Z') - nowMs
  const timers = new Set<Readonly<{ atMs: number; work: () => void }>>()
  const findNext = (untilMs: number) =>
    [...timers].filter(({ atMs }) => atMs <= untilMs).sort((left, right) => left.atMs - right.atMs)[0]
  return {
    monotonicMs: () => nowMs,
    now: () => new Date(nowMs + offsetMs),
    after: (ms, work) => {
      const timer = { atMs: nowMs + ms, work }
      timers.add(timer)
      return () => timers.delete(timer)
    },
    pass: async (ms) => {
      const untilMs = nowMs + ms
      await settle()
      for (let next = findNext(untilMs); next; next = findNext(untilMs)) {
        timers.delete(next)
        nowMs = Math.max(nowMs, next.atMs)
        next.work()
        await settle()
      }
      nowMs = untilMs
    },
    setNow: (now) => {
      offsetMs = now.getTime() - nowMs
    },
    timers: () => timers.size,
  }
}

/** Work without a timer is done by the next turn of the event loop. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
