import type { AuditContext } from '../directory.ts'
import type { Query } from './pool.ts'
import * as statements from './statements.ts'

/** A deed worth remembering, and whom it concerned. */
export type AuditedAction = Readonly<
  | {
      action: 'token.minted' | 'token.revoked' | 'organization.switched' | 'identity.linked'
      subjectId: number
      tokenId?: number
    }
  | { action: 'cluster.suspended' | 'cluster.resumed'; clusterId: number }
>

/** Writes into the trail, within the transaction of the deed: neither is ever there without the other. */
export async function writeAudit(query: Query, deed: AuditedAction, context: AuditContext): Promise<void> {
  const { action } = deed
  const { subjectId, tokenId = null } = 'subjectId' in deed ? deed : { subjectId: null }
  const clusterId = 'clusterId' in deed ? deed.clusterId : null
  const { actorId, credential, organizationId, clientAddress, requestId } = context
  const subjects = [organizationId, subjectId, tokenId, clusterId]
  await query(statements.writeAudit, [action, actorId, credential, ...subjects, clientAddress, requestId])
}
