import type { ClusterStatus } from '../directory/postgres/cluster-store.ts'
import type { ClusterState } from '../observe/cluster-state.ts'

/** The state of a cluster as its proxy judges it, in its word. The heartbeat is the newer of its two (`takeNewer`). */
export function judgeCluster(
  { status, lastHeartbeatAt }: Pick<ClusterStatus, 'status' | 'lastHeartbeatAt'>,
  now: Date,
  staleAfterMs: number,
): ClusterState['state'] {
  if (status === 'suspended') return 'suspended'
  const isSilent = lastHeartbeatAt === null || now.getTime() - lastHeartbeatAt.getTime() > staleAfterMs
  return status !== 'active' || isSilent ? 'offline' : 'active'
}

/** The address without a path or password that may stand in it. */
export const readHost = (url: string): string => (URL.canParse(url) ? new URL(url).origin : 'not an address')
