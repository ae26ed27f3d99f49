import type { Roles } from '../../policy/role.ts'
import type { Permit } from '../authorize/decide.ts'

/** A body, and what the policy says of its request once the body is there: a sender may take as long as it likes. */
export type ConfirmedBody = Readonly<{ bytes: Buffer; permit: Permit; roles: Roles }>

export type RequestFacts = Readonly<{
  requestId: string
  clientAddress: string
  search: string
  readBody: (limitBytes: number) => Promise<ConfirmedBody>
}>
