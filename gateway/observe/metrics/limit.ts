import { Counter, type Registry } from 'prom-client'

export type LimitMetrics = Readonly<{
  countLimited: (route: string, limit: string) => void
  countLimitError: (limit: string, outcome: string) => void
}>

export function createLimitMetrics(registers: Registry[]): LimitMetrics {
  const limited = new Counter({
    name: 'sallyport_rate_limited_total',
    help: 'Requests refused because a rate limit was spent.',
    labelNames: ['route', 'limit'],
    registers,
  })
  const errors = new Counter({
    name: 'sallyport_rate_limit_errors_total',
    help: 'Requests that could not be counted, by what became of them: allow, they passed, or deny, they were refused.',
    labelNames: ['limit', 'outcome'],
    registers,
  })
  return {
    countLimited: (route, limit) => limited.inc({ route, limit }),
    countLimitError: (limit, outcome) => errors.inc({ limit, outcome }),
  }
}
