import { type Origin, readOrigin } from './origin.ts'
import { UpstreamConnection } from './upstream-connection.ts'

/** Connections to upstreams, each for one request at a time. */
export type Pool = Readonly<{
  /** The connection that fell idle last, or a new one. Undefined where all are busy. */
  take: (origin: string, needs: Readonly<{ isFresh: boolean; isForUpgrade: boolean }>) => UpstreamConnection | undefined
  /** How many are open, by origin. */
  count: () => ReadonlyMap<string, number>
  close: () => Promise<void>
}>

type Home = Readonly<{ origin: Origin; idle: UpstreamConnection[] }>

/** Keeps idle connections by origin: each takes itself out when it closes, or has been idle for too long. */
export function createPool(limit: number): Pool {
  const homes = new Map<string, Home>()
  const open = new Set<UpstreamConnection>()

  /** Makes room by an idle one of whatever origin. */
  const hasRoom = (): boolean => {
    if (open.size < limit) return true
    for (const { idle } of homes.values()) {
      const spare = idle[0]
      if (!spare) continue
      spare.drop()
      return true
    }
    return false
  }
  const openConnection = ({ origin, idle }: Home, isForUpgrade: boolean): UpstreamConnection => {
    const connection = new UpstreamConnection(origin, isForUpgrade, {
      keep: () => idle.push(connection),
      forget: () => {
        open.delete(connection)
        const index = idle.lastIndexOf(connection)
        if (index >= 0) idle.splice(index, 1)
      },
    })
    open.add(connection)
    return connection
  }
  return {
    take: (origin, { isFresh, isForUpgrade }) => {
      let home = homes.get(origin)
      if (!home) {
        home = { origin: readOrigin(origin), idle: [] }
        homes.set(origin, home)
      }
      const kept = isFresh || isForUpgrade ? undefined : home.idle.pop()
      return kept ?? (hasRoom() ? openConnection(home, isForUpgrade) : undefined)
    },
    count: () => {
      const counts = new Map<string, number>()
      for (const { origin } of open) counts.set(origin, (counts.get(origin) ?? 0) + 1)
      return counts
    },
    close: async () => {
      await Promise.all([...open].map((connection) => connection.close()))
    },
  }
}
