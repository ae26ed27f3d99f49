import { paintWarning } from '../../base/lib/paint.ts'
import type { ClusterStatus } from '../../directory/postgres/cluster-store.ts'
import type { RedisServers } from '../../directory/redis/clients.ts'
import { createReadHeartbeat, takeNewer } from '../../directory/redis/heartbeats.ts'
import { linkRedis } from '../../directory/redis/redis-link.ts'

/** Without Redis in this time, the database's heartbeats count alone, as they do for the proxy. */
const connectMs = 2_000

const batchSize = 100

const monotonicMs = (): number => performance.now()

export async function hearClusters(
  redis: RedisServers,
  clusters: readonly ClusterStatus[],
): Promise<readonly ClusterStatus[]> {
  if (redis.url === '' || clusters.length === 0) return clusters
  let resolveUp: (isUp: boolean) => void = () => undefined
  const isUp = new Promise<boolean>((resolve) => {
    resolveUp = resolve
  })
  const link = linkRedis(
    { ...redis, monotonicMs },
    {
      onChange: () => undefined,
      onConnected: () => undefined,
      onSynced: () => void setImmediate(resolveUp, true),
      onLost: () => resolveUp(false),
      onUnreadable: () => undefined,
    },
  )
  const timer = setTimeout(resolveUp, connectMs, false)
  try {
    if (!(await isUp)) {
      process.stderr.write(`${paintWarning('Redis does not answer: the heartbeats are those of the database alone')}\n`)
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
