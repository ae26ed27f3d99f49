export const budgetOwners = ['principal', 'organization', 'route', 'address'] as const

export type BudgetOwner = (typeof budgetOwners)[number]

export type RateLimit = Readonly<{
  name: string
  requests: number
  seconds: number
  by: BudgetOwner
  onError: 'allow' | 'deny'
}>

export type RateLimitContent = Omit<RateLimit, 'name'>

export const describeRateLimit = ({ name, requests, seconds, by }: RateLimit): string =>
  `${name}: ${requests} in ${seconds} s by ${by}`
