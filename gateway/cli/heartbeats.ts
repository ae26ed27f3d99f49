import type { ClusterStatus } from '../directory/postgres/cluster-store.ts'
import type { RedisServers } from '../directory/redis/clients.ts'
import { createReadHeartbeat, takeNewer } from '../directory/redis/heartbeats.ts'
import { linkRedis } from '../directory/redis/redis-link.ts'

/** Time for a connection to Redis; past it the database's heartbeats are all there is, as for the proxy. */
const connectMs = 2_000

/** Asked for at once: each must be answered in 200 ms. */
const batchSize = 100

const monotonicMs = (): number => performance.now()

/** The clusters with the newer of their two heartbeats, by which the proxy judges them as well. */
export async function hearClusters(
  redis: RedisServers,
  clusters: readonly ClusterStatus[],
): Promise<readonly ClusterStatus[]> {
  if (redis.url === '' || clusters.length === 0) return clusters
  let told: (isUp: boolean) => void = () => undefined
  const isUp = new Promise<boolean>((resolve) => {
    told = resolve
  })
  const link = linkRedis(
    { ...redis, monotonicMs },
    {
      onChange: () => undefined,
      onConnected: () => undefined,
      // It counts as up once this was told; what waits for it goes on after that.
      onSynced: () => void setImmediate(told, true),
      onLost: () => told(false),
    },
  )
  const timer = setTimeout(told, connectMs, false)
  try {
    if (!(await isUp)) {
      process.stderr.write('Redis cannot be asked: the heartbeats are those of the database alone\n')
      return clusters
    }
    const readHeartbeat = createReadHeartbeat({
      read: link.read,
      maxEntries: batchSize,
      now: () => new Date(),
      monotonicMs,
    })
    const heard: ClusterStatus[] = []
    for (let from = 0; from < clusters.length; from += batchSize) {
      const batch = clusters.slice(from, from + batchSize)
      heard.push(...(await Promise.all(batch.map(async (one) => takeNewer(one, await readHeartbeat(one.id))))))
    }
    return heard
  } finally {
    clearTimeout(timer)
    await link.stop()
  }
}
