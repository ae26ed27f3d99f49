export type CircuitBreaker = Readonly<{ admits: () => boolean; note: (isAnswered: boolean) => void }>

/** One late answer among many requests is chance; five in a row are over after a quarter of a second at 50 ms each. */
const toleratedFailures = 5

/** Requests notice a recovery within a second, and a peer that is down gets one question in it. */
const restMs = 1_000

export function createCircuitBreaker(monotonicMs: () => number): CircuitBreaker {
  let failures = 0
  let restsUntilMs = Number.NEGATIVE_INFINITY
  const rest = (): void => {
    restsUntilMs = monotonicMs() + restMs
  }
  return {
    admits: () => {
      if (failures < toleratedFailures) return true
      if (monotonicMs() < restsUntilMs) return false
      rest()
      return true
    },
    note: (isAnswered) => {
      failures = isAnswered ? 0 : failures + 1
      if (!isAnswered) rest()
    },
  }
}
