/** Whose requests one budget is for. */
export const budgetOwners = ['principal', 'organization', 'route', 'address'] as const

export type BudgetOwner = (typeof budgetOwners)[number]

/** How many requests may come in how long; every route that names it spends of the same budgets. */
export type RateLimit = Readonly<{
  name: string
  requests: number
  seconds: number
  by: BudgetOwner
  /** What becomes of requests that cannot be counted: they pass, or they are 503. */
  onError: 'allow' | 'deny'
}>

/** A rate limit as written, its schema's defaults filled in. */
export type RateLimitContent = Omit<RateLimit, 'name'>

/** A limit in a few words, for people. */
export const describeRateLimit = ({ name, requests, seconds, by }: RateLimit): string =>
  `${name}: ${requests} in ${seconds} s by ${by}`
