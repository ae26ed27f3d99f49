import type { Meter } from './meter.ts'

export type LimitMetrics = ReturnType<typeof createLimitMetrics>

export const createLimitMetrics = ({ count }: Meter) => ({
  countLimited: count('sallyport_rate_limited_total', 'Requests refused by a rate limit.', 'route', 'limit'),
  countLimitError: count(
    'sallyport_rate_limit_errors_total',
    'Requests that a rate limit could not count, by outcome: allow or deny.',
    'limit',
    'outcome',
  ),
})
