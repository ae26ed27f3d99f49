import type { ClusterRecord } from '../directory/directory.ts'

/** A cluster that may be forwarded to, or why it may not. */
export type ClusterCondition = 'active' | 'suspended' | 'offline'

/** A heartbeat from before this moment is too old. */
export const aliveSince = (now: Date, staleAfterMs: number): Date => new Date(now.getTime() - staleAfterMs)

/** The one rule for the proxy of a cluster, the console and the command line; a suspension goes before silence. */
export function judgeCluster(
  { isSuspended, isDeleting, lastHeartbeatAt }: Pick<ClusterRecord, 'isSuspended' | 'isDeleting' | 'lastHeartbeatAt'>,
  since: Date,
): ClusterCondition {
  if (isSuspended) return 'suspended'
  const isSilent = lastHeartbeatAt === null || lastHeartbeatAt < since
  return isDeleting || isSilent ? 'offline' : 'active'
}
