export type Clock = Readonly<{
  /** Time of day, for data that outlives the process. */
  now: () => Date
  monotonicMs: () => number
  after: (ms: number, work: () => void) => () => void
}>
