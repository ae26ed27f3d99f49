import type { ClusterStatus, ClusterStore } from '../../directory/postgres/cluster-store.ts'
import { readClusterStatus } from '../../directory/postgres/rows.ts'
import { type ReadHeartbeat, takeNewer } from '../../directory/redis/heartbeats.ts'
import type { ClusterState, ClusterStates } from '../../listeners/admin/cluster-state.ts'
import { aliveSince, type ClusterCondition, judgeCluster } from '../../stages/locate/cluster-state.ts'

/** More than a person reads on a page; each costs a command of Redis. */
const clustersShown = 200

export async function readClusterStates(
  { list }: Pick<ClusterStore, 'list'>,
  readHeartbeat: ReadHeartbeat,
  now: () => Date,
  staleAfterMs: number,
): Promise<ClusterStates> {
  const all = await list()
  const first = all.slice(0, clustersShown)
  const heard = await Promise.all(first.map(async (cluster) => takeNewer(cluster, await readHeartbeat(cluster.id))))
  return { clusters: heard.map((cluster) => toState(cluster, now(), staleAfterMs)), total: all.length }
}

const toState = (cluster: ClusterStatus, now: Date, staleAfterMs: number): ClusterState => ({
  id: cluster.id,
  organizationId: cluster.organizationId,
  slug: cluster.slug,
  state: judgeListedCluster(cluster, now, staleAfterMs),
  lastHeartbeatAt: cluster.lastHeartbeatAt?.toISOString(),
  origin: readHost(cluster.baseUrl),
})

/** The state that the proxy would judge. `lastHeartbeatAt` is the newer one of the database and Redis (`takeNewer`). */
export const judgeListedCluster = (
  { status, lastHeartbeatAt }: Pick<ClusterStatus, 'status' | 'lastHeartbeatAt'>,
  now: Date,
  staleAfterMs: number,
): ClusterCondition => judgeCluster({ ...readClusterStatus(status), lastHeartbeatAt }, aliveSince(now, staleAfterMs))

export const readHost = (url: string): string => (URL.canParse(url) ? new URL(url).origin : 'not an address')
