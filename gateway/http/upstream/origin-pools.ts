import type { UpstreamRequest } from '../engine.ts'
import type { DnsCache } from './dns-cache.ts'
import { type Origin, readOrigin } from './origin.ts'

/** What the connections to one place share. */
export type OriginPool<Connection> = {
  readonly key: string
  readonly origin: Origin
  readonly names: DnsCache
  readonly tls: UpstreamRequest['tls']
  readonly networks: UpstreamRequest['networks']
  /** The one that fell idle last comes last. */
  readonly idle: Connection[]
  changes: number
}

/** Where a request goes, and what a connection must be for it. */
export type UpstreamTarget = Pick<UpstreamRequest, 'origin' | 'tls' | 'networks'>

export type OriginPoolsOptions<Connection> = Readonly<{
  names: DnsCache
  /** Of places that only some addresses are admitted for: clusters. */
  clusterNames: DnsCache
  /** The address that a connection leads to. */
  peerOf: (connection: Connection) => string | undefined
  drop: (connection: Connection) => void
}>

/** Clusters' addresses come and go: those of the past must not add up. */
export const mostPools = 1_000

/** Idle connections by where they lead, and with which certificates. */
export class OriginPools<Connection> {
  readonly #homes = new Map<string, OriginPool<Connection>>()
  readonly #options: OriginPoolsOptions<Connection>

  constructor(options: OriginPoolsOptions<Connection>) {
    this.#options = options
  }

  find({ origin, tls, networks }: UpstreamTarget): OriginPool<Connection> {
    const place = tls ? `${tls.upstream} ${origin}` : origin
    // A connection whose address was not asked about serves no request that asks.
    const key = networks ? `admitted ${place}` : place
    const known = this.#homes.get(key)
    if (known && known.tls === tls && known.networks === networks) return known
    const names = networks ? this.#options.clusterNames : this.#options.names
    const found = readOrigin(origin, tls, names, networks)
    const home = { key, origin: found, names, tls, networks, idle: [], changes: 0 }
    this.#homes.set(key, home)
    if (this.#homes.size > mostPools) this.#dropOldest()
    // Other certificates are in force: what was opened with those before serves nobody new.
    for (const connection of [...(known?.idle ?? [])]) this.#options.drop(connection)
    return home
  }

  takeIdle(home: OriginPool<Connection>): Connection | undefined {
    if (home.origin.name !== undefined) this.#retireMoved(home, home.origin.name)
    return home.idle.pop()
  }

  /** False for a connection that must not serve again. */
  keep(home: OriginPool<Connection>, connection: Connection): boolean {
    if (this.#homes.get(home.key) !== home || !this.#leadsThere(home, connection)) return false
    home.idle.push(connection)
    return true
  }

  /** The first one that was found: where it is still used, it is found again. */
  #dropOldest(): void {
    const [oldest] = this.#homes.values()
    if (!oldest) return
    this.#homes.delete(oldest.key)
    for (const connection of [...oldest.idle]) this.#options.drop(connection)
  }

  get size(): number {
    return this.#homes.size
  }

  /** An idle one of whatever home, to make room. */
  findSpare(): Connection | undefined {
    for (const { idle } of this.#homes.values()) if (idle[0] !== undefined) return idle[0]
    return undefined
  }

  #retireMoved(home: OriginPool<Connection>, name: string): void {
    const changes = home.names.countChanges(name)
    if (changes === home.changes) return
    home.changes = changes
    for (const connection of [...home.idle]) if (!this.#leadsThere(home, connection)) this.#options.drop(connection)
  }

  #leadsThere({ origin: { name }, names }: OriginPool<Connection>, connection: Connection): boolean {
    return name === undefined || names.holds(name, this.#options.peerOf(connection))
  }
}
