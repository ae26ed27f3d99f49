import { createBoundedMap } from '../../lib/bounded-map.ts'
import type { Directory } from '../directory.ts'

export type HeartbeatSource = Readonly<{
  /** The value of a key, undefined for none. */
  read: (key: string) => Promise<string | undefined>
  maxEntries: number
  now: () => Date
  monotonicMs: () => number
}>

type Remembered = Readonly<{ beat: Promise<Date | undefined>; askedAtMs: number }>

/** A cluster's heartbeat is asked for at most this often. */
const rememberMs = 1_000

/** A clock that is further ahead of ours than this is broken, and would keep its cluster alive for ever. */
const largestSkewMs = 5 * 60_000

/** Takes the newer of two heartbeats, the row's and that in Redis (SPEC section 6, cluster proxy). */
export function withHeartbeats(directory: Directory, readHeartbeat: ReadHeartbeat): Directory {
  return {
    ...directory,
    findCluster: async (id, aliveSince) => {
      const cluster = await directory.findCluster(id, beginningOfTime)
      if (!cluster) return undefined
      const beat = await readHeartbeat(id)
      const newest = takeNewer(cluster, beat)
      if (newest.lastHeartbeatAt !== null && newest.lastHeartbeatAt >= aliveSince) return newest
      const current = await directory.findCluster(id, aliveSince)
      return current && takeNewer(current, beat)
    },
  }
}

const beginningOfTime = new Date(0)

/** The one of two records, a row's or what stands for one, with the newer heartbeat. */
export function takeNewer<Cluster extends Readonly<{ lastHeartbeatAt: Date | null }>>(
  cluster: Cluster,
  beat: Date | undefined,
): Cluster {
  const { lastHeartbeatAt } = cluster
  const isNewer = beat !== undefined && (lastHeartbeatAt === null || beat > lastHeartbeatAt)
  return isNewer ? { ...cluster, lastHeartbeatAt: beat } : cluster
}

/** The heartbeat of a cluster in Redis; undefined where there is none, or none can be read. */
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

/** Milliseconds since the epoch in decimal; anything else is no heartbeat. */
function parseHeartbeat(value: string | undefined, now: Date): Date | undefined {
  if (value === undefined || !/^\d{1,15}$/.test(value)) return undefined
  const beat = new Date(Number(value))
  return beat.getTime() <= now.getTime() + largestSkewMs ? beat : undefined
}
