import type { ClusterStatus, ClusterStore } from '../directory/postgres/cluster-store.ts'
import { type ReadHeartbeat, takeNewer } from '../directory/redis/heartbeats.ts'
import type { ClusterState, ClusterStates } from '../observe/cluster-state.ts'
import { judgeCluster, readHost } from './judge-cluster.ts'

/** A page shows no more than these; each costs a look into Redis. */
const clustersShown = 200

/** The clusters with what their proxy answers, by the newest heartbeat wherever it was heard. */
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
  state: judgeCluster(cluster, now, staleAfterMs),
  lastHeartbeatAt: cluster.lastHeartbeatAt?.toISOString(),
  origin: readHost(cluster.baseUrl),
})
