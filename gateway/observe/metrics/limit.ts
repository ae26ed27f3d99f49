import { Counter, type Registry } from 'prom-client'

/** What rate limits did; their names and those of routes come from the policy. */
export type LimitMetrics = Readonly<{
  countLimited: (route: string, limit: string) => void
  /** A request that could not be counted, and what became of it: `open`, it passed, or `closed`, it was refused. */
  countLimitTrouble: (limit: string, outcome: string) => void
}>

export function createLimitMetrics(registers: Registry[]): LimitMetrics {
  const limited = new Counter({
    name: 'sallyport_rate_limited_total',
    help: 'Requests refused because a rate limit was spent.',
    labelNames: ['route', 'limit'],
    registers,
  })
  const troubles = new Counter({
    name: 'sallyport_rate_limit_troubles_total',
    help: 'Requests that could not be counted, by what became of them: open, they passed, or closed, they were refused.',
    labelNames: ['limit', 'outcome'],
    registers,
  })
  return {
    countLimited: (route, limit) => limited.inc({ route, limit }),
    countLimitTrouble: (limit, outcome) => troubles.inc({ limit, outcome }),
  }
}
