import type { AuditContext } from '../directory.ts'
import type { Query } from './pool.ts'
import * as statements from './statements.ts'

export type AuditedAction = Readonly<
  | {
      action: 'token.minted' | 'token.revoked' | 'organization.switched' | 'identity.linked'
      subjectId: number
      tokenId?: number
    }
  | { action: 'cluster.suspended' | 'cluster.resumed'; clusterId: number }
  | { action: 'sessions.ended'; subjectId: number | null; tokenId: number | null }
>

/** Runs in the transaction of the action, so that neither is ever stored without the other. */
export async function writeAudit(query: Query, deed: AuditedAction, context: AuditContext): Promise<void> {
  const { action } = deed
  const { subjectId, tokenId = null } = 'subjectId' in deed ? deed : { subjectId: null }
  const clusterId = 'clusterId' in deed ? deed.clusterId : null
  const { actorId, credential, organizationId, clientAddress, requestId } = context
  const subjects = [organizationId, subjectId, tokenId, clusterId]
  await query(statements.writeAudit, [action, actorId, credential, ...subjects, clientAddress, requestId])
}

export type TokenDeed = Readonly<{
  at: Date
  action: 'token.minted' | 'token.revoked'
  actorId: number | null
  credential: string
  organizationId: number | null
  ownerId: number | null
  clientAddress: string
  requestId: string
}>

type TrailRow = {
  at: Date
  action: TokenDeed['action']
  actor_id: number | null
  credential: string
  organization_id: number | null
  subject_id: number | null
  client_address: string
  request_id: string
}

export async function readTokenTrail(query: Query, tokenId: number): Promise<readonly TokenDeed[]> {
  const rows = await query<TrailRow>(statements.readTokenTrail, [tokenId])
  return rows.map((row) => ({
    at: row.at,
    action: row.action,
    actorId: row.actor_id,
    credential: row.credential,
    organizationId: row.organization_id,
    ownerId: row.subject_id,
    clientAddress: row.client_address,
    requestId: row.request_id,
  }))
}
