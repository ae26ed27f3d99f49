import type { AuditContext } from '../directory.ts'
import { writeAudit } from './audit.ts'
import type { Database } from './pool.ts'
import * as statements from './statements.ts'

export type ClusterStatus = Readonly<{
  id: number
  organizationId: number
  slug: string
  baseUrl: string
  status: string
  lastHeartbeatAt: Date | null
}>

export type ClusterStore = Readonly<{
  list: () => Promise<readonly ClusterStatus[]>
  suspend: (id: number, audit: AuditContext) => Promise<ClusterStatus | undefined>
  resume: (id: number, audit: AuditContext) => Promise<ClusterStatus | undefined>
  beat: (id: number) => Promise<ClusterStatus | undefined>
}>

type Row = {
  id: number
  organization_id: number
  slug: string
  base_url: string
  status: string
  last_heartbeat_at: Date | null
}

export function createClusterStore({ query, transaction }: Database): ClusterStore {
  const change = (id: number, status: 'active' | 'suspended', audit: AuditContext) =>
    transaction(async (within) => {
      const [row] = await within<Row & { was: string }>(statements.setClusterStatus, [id, status])
      if (row && row.was !== row.status) {
        const action = status === 'suspended' ? 'cluster.suspended' : 'cluster.resumed'
        const context = { ...audit, organizationId: row.organization_id }
        await writeAudit(within, { action, clusterId: id }, context)
      }
      return row && toStatus(row)
    })
  return {
    list: async () => (await query<Row>(statements.listClusters, [])).map(toStatus),
    suspend: (id, audit) => change(id, 'suspended', audit),
    resume: (id, audit) => change(id, 'active', audit),
    beat: async (id) => {
      const [row] = await query<Row>(statements.beatCluster, [id])
      return row && toStatus(row)
    },
  }
}

const toStatus = (row: Row): ClusterStatus => ({
  id: row.id,
  organizationId: row.organization_id,
  slug: row.slug,
  baseUrl: row.base_url,
  status: row.status,
  lastHeartbeatAt: row.last_heartbeat_at,
})
