export type CircuitBreaker = Readonly<{ admits: () => boolean; note: (isAnswered: boolean) => void }>

const toleratedFailures = 5

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
