import type { RequestBody } from '../http/exchange.ts'

/** What an owned endpoint may know of a request beside its permit. */
export type RequestFacts = Readonly<{
  requestId: string
  clientAddress: string
  /** The query with its question mark, or an empty string. */
  search: string
  body: RequestBody
}>
