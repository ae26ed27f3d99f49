import type { AuditContext } from '../directory.ts'
import type { Query } from './pool.ts'
import * as statements from './statements.ts'

/** A deed worth remembering, and whom it concerned. */
export type Deed = Readonly<{
  action: 'token.minted' | 'token.revoked' | 'organization.switched'
  subjectId: number
  tokenId?: number
}>

/** Writes into the trail, within the transaction of the deed: neither is ever there without the other. */
export async function writeAudit(query: Query, deed: Deed, context: AuditContext): Promise<void> {
  const { action, subjectId, tokenId = null } = deed
  const { actorId, credential, organizationId, clientAddress, requestId } = context
  const values = [action, actorId, credential, organizationId, subjectId, tokenId, clientAddress, requestId]
  await query(statements.writeAudit, values)
}
