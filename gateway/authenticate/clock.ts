/** Time, handed in: tests then need none of it to pass. */
export type Clock = Readonly<{
  /** The time of day, for what is kept longer than this process lives. */
  now: () => Date
  /** Never steps back, in milliseconds. */
  monotonicMs: () => number
  /** Calls back once, that much later; returns how to call it off. */
  after: (ms: number, work: () => void) => () => void
}>
