import { type buildConnector, Client, type Dispatcher } from 'undici'
import type { UpstreamRequest } from '../engine.ts'
import { type Home, Homes } from '../homes.ts'
import type { Names } from '../names.ts'
import { connectTo } from './connect-to.ts'

/** Clients of undici, each for one connection and one request at a time. */
export type Connections = Readonly<{
  /** The connection that fell idle last, or a new one; `isFresh` takes no kept one. Undefined where all are busy. */
  take: (
    place: Pick<UpstreamRequest, 'origin' | 'tls'>,
    connectTimeoutMs: number,
    isFresh: boolean,
  ) => Client | undefined
  /** Gives a connection back after a whole answer, and says where it leads. */
  keep: (client: Client, peerAddress: string | undefined) => void
  /** What undici is to take its upstream's certificate to be for. */
  serverNameOf: (client: Client) => string | null
  /** True for a connection that was kept before: its upstream may close it under the next request. */
  hasServed: (client: Client) => boolean
  /** Breaks a connection, with whatever is under way on it. */
  drop: (client: Client) => void
  /** How many are open, by origin. */
  count: () => ReadonlyMap<string, number>
  close: () => Promise<void>
}>

/**
 * Keeps idle connections by origin and connect time-out. Not undici's own Pool: that opens a spare connection for
 * every request that was cancelled, and looks through all of its connections, streams too, at every request.
 */
export function createConnections(limit: number, names: Names): Connections {
  const homeOf = new WeakMap<Client, Home<Client>>()
  /** Of those that have served. */
  const peers = new WeakMap<Client, string | undefined>()
  /** Made for each connection it would be a tenth of what a stream costs. */
  const connectors = new WeakMap<Home<Client>, buildConnector.connector>()
  const open = new Set<Client>()

  const drop = (client: Client): void => {
    open.delete(client)
    // What it was doing learns of it by its own error.
    client.destroy().catch(() => undefined)
  }
  const homes = new Homes<Client>({ names, peerOf: (client) => peers.get(client), drop: (client) => dropIdle(client) })
  const dropIdle = (client: Client): void => {
    const idle = homeOf.get(client)?.idle
    const index = idle?.indexOf(client) ?? -1
    if (index >= 0) idle?.splice(index, 1)
    drop(client)
  }
  /** A kept connection that closes is of no more use than a new one, and costs memory. */
  const onDisconnect = (_origin: URL, [dispatcher]: readonly Dispatcher[]): void => {
    const client = dispatcher as Client // which alone is given this listener
    if (homeOf.get(client)?.idle.includes(client)) dropIdle(client)
  }
  /** Makes room by an idle one of whatever origin. */
  const hasRoom = (): boolean => {
    if (open.size < limit) return true
    const spare = homes.findSpare()
    if (spare) dropIdle(spare)
    return spare !== undefined
  }
  const openClient = (home: Home<Client>, connectTimeoutMs: number): Client => {
    const connect = connectors.get(home) ?? connectTo(home.origin, connectTimeoutMs)
    connectors.set(home, connect)
    const client = new Client(home.origin.origin, {
      pipelining: 1,
      connect,
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
    take: (place, connectTimeoutMs, isFresh) => {
      const home = homes.find(place, `${connectTimeoutMs} `)
      const kept = isFresh ? undefined : homes.takeIdle(home)
      return kept ?? (hasRoom() ? openClient(home, connectTimeoutMs) : undefined)
    },
    keep: (client, peerAddress) => {
      if (client.destroyed) return
      const home = homeOf.get(client)
      peers.set(client, peerAddress)
      if (!home || !homes.keep(home, client)) drop(client)
    },
    hasServed: (client) => peers.has(client),
    serverNameOf: (client) => homeOf.get(client)?.origin.serverName ?? null,
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
