import type { RequestBody } from '../http/exchange.ts'

export type RequestFacts = Readonly<{
  requestId: string
  clientAddress: string
  search: string
  body: Pick<RequestBody, 'read'>
}>
