import type { ClusterRecord } from '../../directory/directory.ts'

export type ClusterCondition = 'active' | 'suspended' | 'offline'

export const aliveSince = (now: Date, staleAfterMs: number): Date => new Date(now.getTime() - staleAfterMs)

/** The proxy, the console and the command line share this rule. A suspension takes precedence over silence. */
export function judgeCluster(
  { isSuspended, isDeleting, lastHeartbeatAt }: Pick<ClusterRecord, 'isSuspended' | 'isDeleting' | 'lastHeartbeatAt'>,
  since: Date,
): ClusterCondition {
  if (isSuspended) return 'suspended'
  const isSilent = lastHeartbeatAt === null || lastHeartbeatAt < since
  return isDeleting || isSilent ? 'offline' : 'active'
}
