export type Clock = Readonly<{
  /** Time of day, for data that outlives the process. */
  now: () => Date
  monotonicMs: () => number
  /** Calls back once after `ms`; returns a function that cancels it. */
  after: (ms: number, work: () => void) => () => void
}>
