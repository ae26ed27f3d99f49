import { Counter, type Registry } from 'prom-client'

export type LimitMetrics = Readonly<{
  countLimited: (route: string, limit: string) => void
  countLimitError: (limit: string, outcome: string) => void
}>

export function createLimitMetrics(registers: Registry[]): LimitMetrics {
  const limited = new Counter({
    name: 'sallyport_rate_limited_total',
    help: 'Requests refused by a rate limit.',
    labelNames: ['route', 'limit'],
    registers,
  })
  const errors = new Counter({
    name: 'sallyport_rate_limit_errors_total',
    help: 'Requests that a rate limit could not count, by outcome: allow or deny.',
    labelNames: ['limit', 'outcome'],
    registers,
  })
  return {
    countLimited: (route, limit) => limited.inc({ route, limit }),
    countLimitError: (limit, outcome) => errors.inc({ limit, outcome }),
  }
}
