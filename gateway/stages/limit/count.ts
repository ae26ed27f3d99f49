import type { RateLimit } from '../../policy/rate-limit.ts'

export type Usage = Readonly<{
  used: number
  resetMs: number
}>

export type Count = (limit: RateLimit, owner: string) => Promise<Usage>
