import { type BoundedMap, createBoundedMap } from '../cache/bounded-map.ts'
import type { ClusterRecord, Directory } from '../directory.ts'

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
export function withHeartbeats(directory: Directory, source: HeartbeatSource): Directory {
  const remembered = createBoundedMap<Remembered>(source.maxEntries)
  return {
    ...directory,
    findCluster: async (id, aliveSince) => {
      const cluster = await directory.findCluster(id, beginningOfTime)
      if (!cluster) return undefined
      const beat = await readHeartbeat(id, source, remembered)
      const newest = takeNewer(cluster, beat)
      if (newest.lastHeartbeatAt !== null && newest.lastHeartbeatAt >= aliveSince) return newest
      const current = await directory.findCluster(id, aliveSince)
      return current && takeNewer(current, beat)
    },
  }
}

const beginningOfTime = new Date(0)

function takeNewer(cluster: ClusterRecord, beat: Date | undefined): ClusterRecord {
  const { lastHeartbeatAt } = cluster
  const isNewer = beat !== undefined && (lastHeartbeatAt === null || beat > lastHeartbeatAt)
  return isNewer ? { ...cluster, lastHeartbeatAt: beat } : cluster
}

function readHeartbeat(
  id: number,
  source: HeartbeatSource,
  remembered: BoundedMap<Remembered>,
): Promise<Date | undefined> {
  const key = `sallyport:cluster:${id}:heartbeat`
  const known = remembered.get(key)
  const askedAtMs = source.monotonicMs()
  if (known && askedAtMs - known.askedAtMs < rememberMs) return known.beat
  const beat = source.read(key).then((value) => parseHeartbeat(value, source.now()))
  remembered.set(key, { beat, askedAtMs })
  return beat
}

/** Milliseconds since the epoch in decimal; anything else is no heartbeat. */
function parseHeartbeat(value: string | undefined, now: Date): Date | undefined {
  if (value === undefined || !/^\d{1,15}$/.test(value)) return undefined
  const beat = new Date(Number(value))
  return beat.getTime() <= now.getTime() + largestSkewMs ? beat : undefined
}
