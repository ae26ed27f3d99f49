import { UnorderedList } from '../../lib/unordered-list.ts'
import { type ConnectionEvents, UpstreamConnection } from './connection.ts'
import type { DnsCache } from './dns-cache.ts'
import { type OriginPool, OriginPools, type UpstreamTarget } from './origin-pools.ts'

export type Pool = Readonly<{
  /** Returns the most recently idle connection or a new one; undefined where all are busy. */
  acquire: (place: UpstreamTarget, needs: Needs) => UpstreamConnection | undefined
  count: () => ReadonlyMap<string, number>
  close: () => Promise<void>
}>

type Needs = Readonly<{ isFresh: boolean; isForUpgrade: boolean }>

export function createPool(limit: number, names: DnsCache, clusterNames: DnsCache): Pool {
  const open = new UnorderedList<UpstreamConnection>()
  const pools = new OriginPools<UpstreamConnection>({
    dns: names,
    clusterDns: clusterNames,
    peerOf: ({ peerAddress }) => peerAddress,
    drop: (connection) => connection.drop(),
  })

  const hasRoom = (): boolean => {
    if (open.size < limit) return true
    const spare = pools.oldestIdle()
    spare?.drop()
    return spare !== undefined
  }
  const eventsByPool = new WeakMap<OriginPool<UpstreamConnection>, ConnectionEvents>()
  const counts = new Map<string, number>()
  const count = (origin: string, change: 1 | -1): void => {
    const number = (counts.get(origin) ?? 0) + change
    if (number === 0) counts.delete(origin)
    else counts.set(origin, number)
  }
  const createEvents = (pool: OriginPool<UpstreamConnection>): ConnectionEvents => ({
    keep: (connection) => {
      if (!pools.keep(pool, connection)) connection.drop()
    },
    forget: (connection) => {
      const { idle } = pool
      if (connection.slot?.member !== undefined) {
        count(connection.origin, -1)
        open.remove(connection.slot)
      }
      const index = idle.lastIndexOf(connection)
      if (index >= 0) idle.splice(index, 1)
    },
  })
  const openConnection = (pool: OriginPool<UpstreamConnection>, isForUpgrade: boolean): UpstreamConnection => {
    let events = eventsByPool.get(pool)
    if (!events) {
      events = createEvents(pool)
      eventsByPool.set(pool, events)
    }
    const connection = new UpstreamConnection(pool.origin, isForUpgrade, events)
    connection.slot = open.add(connection)
    count(connection.origin, 1)
    return connection
  }
  return {
    acquire: (target, { isFresh, isForUpgrade }) => {
      const pool = pools.find(target)
      const kept = isFresh || isForUpgrade ? undefined : pools.takeIdle(pool)
      return kept ?? (hasRoom() ? openConnection(pool, isForUpgrade) : undefined)
    },
    count: () => counts,
    close: async () => {
      await Promise.all([...open].map((connection) => connection.close()))
    },
  }
}
