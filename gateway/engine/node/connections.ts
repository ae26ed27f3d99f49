import { Client } from 'undici'

/** Clients of undici, each for one connection and one request at a time. */
export type Connections = Readonly<{
  /** The connection that fell idle last, or a new one; `isFresh` takes no kept one. Undefined where all are busy. */
  take: (origin: string, connectTimeoutMs: number, isFresh: boolean) => Client | undefined
  /** Gives a connection back after a whole answer. */
  keep: (client: Client) => void
  /** Breaks a connection, with whatever is under way on it. */
  drop: (client: Client) => void
  close: () => Promise<void>
}>

/**
 * Keeps idle connections by origin and connect time-out. Not undici's own Pool: that opens a spare connection for
 * every request that was cancelled, and looks through all of its connections, streams too, at every request.
 */
export function createConnections(limit: number): Connections {
  const idle = new Map<string, Client[]>()
  const homes = new WeakMap<Client, Client[]>()
  const open = new Set<Client>()

  const drop = (client: Client): void => {
    open.delete(client)
    // What it was doing learns of it by its own error.
    client.destroy().catch(() => undefined)
  }
  /** Makes room by an idle one of whatever origin. */
  const hasRoom = (): boolean => {
    if (open.size < limit) return true
    for (const home of idle.values()) {
      const spare = home.shift()
      if (!spare) continue
      drop(spare)
      return true
    }
    return false
  }
  const connect = (origin: string, connectTimeoutMs: number, home: Client[]): Client => {
    const client = new Client(origin, {
      pipelining: 1,
      connect: { timeout: connectTimeoutMs },
      maxHeaderSize: 64 * 1024,
      // Shorter than the idle time-out of common backends, so that fewer reuses meet a closing connection.
      keepAliveTimeout: 4_000,
    })
    homes.set(client, home)
    open.add(client)
    // A kept connection that closes is of no more use than a new one, and costs memory.
    client.on('disconnect', () => {
      const index = home.indexOf(client)
      if (index < 0) return
      home.splice(index, 1)
      drop(client)
    })
    return client
  }
  return {
    take: (origin, connectTimeoutMs, isFresh) => {
      const key = `${connectTimeoutMs} ${origin}`
      let home = idle.get(key)
      if (!home) {
        home = []
        idle.set(key, home)
      }
      const kept = isFresh ? undefined : home.pop()
      return kept ?? (hasRoom() ? connect(origin, connectTimeoutMs, home) : undefined)
    },
    keep: (client) => {
      if (!client.destroyed) homes.get(client)?.push(client)
    },
    drop,
    close: async () => {
      await Promise.all([...open].map((client) => client.destroy()))
    },
  }
}
