import { buildConnector, Client, type Dispatcher } from 'undici'

/** Clients of undici, each for one connection and one request at a time. */
export type Connections = Readonly<{
  /** The connection that fell idle last, or a new one; `isFresh` takes no kept one. Undefined where all are busy. */
  take: (origin: string, connectTimeoutMs: number, isFresh: boolean) => Client | undefined
  /** Gives a connection back after a whole answer. */
  keep: (client: Client) => void
  /** Breaks a connection, with whatever is under way on it. */
  drop: (client: Client) => void
  /** How many are open, by origin. */
  count: () => ReadonlyMap<string, number>
  close: () => Promise<void>
}>

/** What the connections to one origin share; made for each of them it would be a tenth of what a stream costs. */
type Home = Readonly<{ origin: URL; connect: buildConnector.connector; idle: Client[] }>

/**
 * Keeps idle connections by origin and connect time-out. Not undici's own Pool: that opens a spare connection for
 * every request that was cancelled, and looks through all of its connections, streams too, at every request.
 */
export function createConnections(limit: number): Connections {
  const homes = new Map<string, Home>()
  const homeOf = new WeakMap<Client, Home>()
  const open = new Set<Client>()

  const drop = (client: Client): void => {
    open.delete(client)
    // What it was doing learns of it by its own error.
    client.destroy().catch(() => undefined)
  }
  /** A kept connection that closes is of no more use than a new one, and costs memory. */
  const onDisconnect = (_origin: URL, [dispatcher]: readonly Dispatcher[]): void => {
    const client = dispatcher as Client // which alone is given this listener
    const idle = homeOf.get(client)?.idle
    const index = idle?.indexOf(client) ?? -1
    if (index < 0) return
    idle?.splice(index, 1)
    drop(client)
  }
  /** Makes room by an idle one of whatever origin. */
  const hasRoom = (): boolean => {
    if (open.size < limit) return true
    for (const { idle } of homes.values()) {
      const spare = idle.shift()
      if (!spare) continue
      drop(spare)
      return true
    }
    return false
  }
  const openClient = (home: Home): Client => {
    const client = new Client(home.origin, {
      pipelining: 1,
      connect: home.connect,
      maxHeaderSize: 64 * 1024,
      // Shorter than the idle time-out of common backends, so that fewer reuses meet a closing connection.
      keepAliveTimeout: 4_000,
    })
    homeOf.set(client, home)
    open.add(client)
    client.on('disconnect', onDisconnect)
    return client
  }
  return {
    take: (origin, connectTimeoutMs, isFresh) => {
      const key = `${connectTimeoutMs} ${origin}`
      let home = homes.get(key)
      if (!home) {
        home = { origin: new URL(origin), connect: buildConnector({ timeout: connectTimeoutMs }), idle: [] }
        homes.set(key, home)
      }
      const kept = isFresh ? undefined : home.idle.pop()
      return kept ?? (hasRoom() ? openClient(home) : undefined)
    },
    keep: (client) => {
      if (!client.destroyed) homeOf.get(client)?.idle.push(client)
    },
    drop,
    count: () => {
      const counts = new Map<string, number>()
      for (const client of open) {
        const origin = homeOf.get(client)?.origin.origin ?? ''
        counts.set(origin, (counts.get(origin) ?? 0) + 1)
      }
      return counts
    },
    close: async () => {
      await Promise.all([...open].map((client) => client.destroy()))
    },
  }
}
