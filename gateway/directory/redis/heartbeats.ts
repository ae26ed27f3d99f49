import { createBoundedMap } from '../../base/lib/bounded-map.ts'
import type { Directory } from '../directory.ts'

export type HeartbeatSource = Readonly<{
  read: (key: string) => Promise<string | undefined>
  maxEntries: number
  now: () => Date
  monotonicMs: () => number
}>

type Remembered = Readonly<{ beat: Promise<Date | undefined>; askedAtMs: number }>

/** As `heartbeatMs` of the database: each cluster costs a command a second at most, however many requests it gets. */
const rememberMs = 1_000

/** A clock that is further ahead is wrong, and would keep its cluster alive forever. */
const largestSkewMs = 5 * 60_000

/** Takes the newer heartbeat of the database's and Redis' (SPEC section 6, cluster proxy). */
export function withHeartbeats(directory: Directory, readHeartbeat: ReadHeartbeat): Directory {
  return {
    ...directory,
    findCluster: async (id, aliveSince, organizationId) => {
      const cluster = await directory.findCluster(id, beginningOfTime, organizationId)
      // The time of a question to Redis would tell a foreign cluster from an absent one.
      if (typeof cluster !== 'object') return cluster
      const beat = await readHeartbeat(id)
      const newest = takeNewer(cluster, beat)
      if (newest.lastHeartbeatAt !== null && newest.lastHeartbeatAt >= aliveSince) return newest
      const current = await directory.findCluster(id, aliveSince, organizationId)
      return typeof current === 'object' ? takeNewer(current, beat) : current
    },
  }
}

const beginningOfTime = new Date(0)

export function takeNewer<Cluster extends Readonly<{ lastHeartbeatAt: Date | null }>>(
  cluster: Cluster,
  beat: Date | undefined,
): Cluster {
  const { lastHeartbeatAt } = cluster
  const isNewer = beat !== undefined && (lastHeartbeatAt === null || beat > lastHeartbeatAt)
  return isNewer ? { ...cluster, lastHeartbeatAt: beat } : cluster
}

export type ReadHeartbeat = (id: number) => Promise<Date | undefined>

export function createReadHeartbeat(source: HeartbeatSource): ReadHeartbeat {
  const remembered = createBoundedMap<Remembered>(source.maxEntries)
  return (id) => {
    const key = `sallyport:cluster:${id}:heartbeat`
    const known = remembered.get(key)
    const askedAtMs = source.monotonicMs()
    if (known && askedAtMs - known.askedAtMs < rememberMs) return known.beat
    const beat = source.read(key).then((value) => parseHeartbeat(value, source.now()))
    remembered.set(key, { beat, askedAtMs })
    return beat
  }
}

function parseHeartbeat(value: string | undefined, now: Date): Date | undefined {
  if (value === undefined || !/^\d{1,15}$/.test(value)) return undefined
  const beat = new Date(Number(value))
  return beat.getTime() <= now.getTime() + largestSkewMs ? beat : undefined
}
