export type Clock = Readonly<{
  now: () => Date
  monotonicMs: () => number
  after: (ms: number, work: () => void) => () => void
}>
