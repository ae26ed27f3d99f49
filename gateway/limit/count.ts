import type { RateLimit } from '../policy/rate-limit.ts'

/** How a budget stands after one more request. */
export type Usage = Readonly<{
  /** Requests of this window, this one included. */
  used: number
  /** Until the window ends. */
  resetMs: number
}>

/** Counts one more request of a budget; rejects where nobody can tell how it stands. */
export type Count = (limit: RateLimit, owner: string) => Promise<Usage>
