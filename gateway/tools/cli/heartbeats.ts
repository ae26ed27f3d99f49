import { paintWarning } from '../../base/lib/paint.ts'
import { formatChange } from '../../directory/change.ts'
import type { ClusterStatus } from '../../directory/postgres/cluster-store.ts'
import type { RedisServers } from '../../directory/redis/clients.ts'
import { createReadHeartbeat, takeNewer } from '../../directory/redis/heartbeats.ts'
import { changesChannel, linkRedis, type RedisLink } from '../../directory/redis/redis-link.ts'

/** Without Redis in this time, a command does without it. */
const connectMs = 2_000

/** Asked for at once: each must be answered in the 200 ms of a command. */
const batchSize = 100

const monotonicMs = (): number => performance.now()

export async function hearClusters(
  redis: RedisServers,
  clusters: readonly ClusterStatus[],
): Promise<readonly ClusterStatus[]> {
  if (redis.url === '' || clusters.length === 0) return clusters
  return withLink(redis, async (link) => {
    // The database's heartbeats count alone then, as they do for the proxy.
    if (!link) {
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
  })
}

/**
 * Tells the replicas of a change that a command has made. With `redis.allWritersPublish` they may hear Redis alone, which
 * no trigger of the database reaches, and take its silence as proof that nothing has changed.
 */
export async function tellReplicas(redis: RedisServers & Readonly<{ allWritersPublish: boolean }>): Promise<void> {
  if (redis.url === '' || !redis.allWritersPublish) return
  const isTold = await withLink(redis, async (link) => {
    try {
      await link?.use('publish', (client) => client.publish(changesChannel, formatChange({ kind: 'everything' })))
      return link !== undefined
    } catch {
      return false
    }
  })
  if (!isTold)
    throw new Error(
      'the change is stored, but Redis took no message of it, and redis.allWritersPublish is set: ' +
        'replicas that hear Redis alone may go by what was before. Run the command again once Redis answers.',
    )
}

async function withLink<Result>(
  redis: RedisServers,
  work: (link: RedisLink | undefined) => Promise<Result>,
): Promise<Result> {
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
    return await work((await isUp) ? link : undefined)
  } finally {
    clearTimeout(timer)
    await link.stop()
  }
}
