import type { Sharing, UpstreamRequest } from '../engine.ts'
import type { DnsCache } from './dns-cache.ts'
import { type AnswerOwner, IdleConnections, type Idling } from './idle-connections.ts'
import { type Origin, readOrigin } from './origin.ts'

export type OriginPool<Connection extends Idling<Connection>> = {
  readonly key: string
  readonly origin: Origin
  readonly dns: DnsCache
  /** The organization of a cluster, which chose its name. */
  readonly owner: string
  readonly tls: UpstreamRequest['tls']
  readonly networks: UpstreamRequest['networks']
  readonly idle: IdleConnections<Connection>
  dnsVersion: number
}

export type UpstreamTarget = Pick<UpstreamRequest, 'origin' | 'tls' | 'networks'> &
  Readonly<{ sharing?: Pick<Sharing, 'upstream'> & Partial<Pick<Sharing, 'owner'>> }>

export type OriginPoolsOptions<Connection> = Readonly<{
  dns: DnsCache
  clusterDns: DnsCache
  monotonicMs: () => number
  peerOf: (connection: Connection) => string | undefined
  drop: (connection: Connection) => void
}>

/** Addresses of clusters come and go, and must not add up. As many as there are names (`maximumNames`). */
export const mostPools = 1_000

/** Below it the order of use does not matter, and a request saves the time of keeping it. */
const fewPools = mostPools / 2

const unnamed: UpstreamTarget['sharing'] & object = { upstream: '' }

/** The pools of the origins in use, for each upstream and each cluster its own. */
export class OriginPools<Connection extends Idling<Connection>> {
  readonly #pools = new Map<string, OriginPool<Connection>>()
  readonly #options: OriginPoolsOptions<Connection>

  constructor(options: OriginPoolsOptions<Connection>) {
    this.#options = options
  }

  find({ origin, sharing = unnamed, tls, networks }: UpstreamTarget): OriginPool<Connection> {
    // Clusters of two tenants may share an origin, and its late bytes could reach the other tenant.
    // A connection whose address was not checked serves no request that demands the check.
    const key = `${sharing.upstream} ${networks ? 'admitted ' : ''}${origin}`
    const known = this.#pools.get(key)
    if (known && known.tls === tls && known.networks === networks) {
      if (this.#pools.size > fewPools) this.#keepInUse(known)
      return known
    }
    const dns = networks ? this.#options.clusterDns : this.#options.dns
    const owner = networks ? String(sharing.owner) : ''
    const found = readOrigin(origin, tls, { lookup: dns.lookupFor(owner) }, networks)
    const idle = new IdleConnections<Connection>()
    const pool = { key, origin: found, dns, owner, tls, networks, idle, dnsVersion: 0 }
    this.#pools.delete(key)
    this.#pools.set(key, pool)
    if (this.#pools.size > mostPools) this.#dropOldest()
    for (const connection of known?.idle.all() ?? []) this.#options.drop(connection)
    return pool
  }

  takeIdle(pool: OriginPool<Connection>, owner: AnswerOwner, isIsolated: boolean): Connection | undefined {
    if (pool.origin.name !== undefined) this.#dropStaleAddresses(pool, pool.origin.name)
    return pool.idle.take(owner, isIsolated, this.#options.monotonicMs())
  }

  keep(pool: OriginPool<Connection>, connection: Connection): boolean {
    if (this.#pools.get(pool.key) !== pool || !this.#isCurrentAddress(pool, connection)) return false
    pool.idle.add(connection, this.#options.monotonicMs())
    return true
  }

  #keepInUse(pool: OriginPool<Connection>): void {
    this.#pools.delete(pool.key)
    this.#pools.set(pool.key, pool)
  }

  #dropOldest(): void {
    const [oldest] = this.#pools.values()
    if (!oldest) return
    this.#pools.delete(oldest.key)
    for (const connection of oldest.idle.all()) this.#options.drop(connection)
  }

  get size(): number {
    return this.#pools.size
  }

  /** The connection that has been idle for longest, of all origins. */
  oldestIdle(): Connection | undefined {
    let oldest: Connection | undefined
    for (const { idle } of this.#pools.values()) {
      const candidate = idle.oldest
      if (candidate && (!oldest || candidate.idleSinceMs < oldest.idleSinceMs)) oldest = candidate
    }
    return oldest
  }

  #dropStaleAddresses(pool: OriginPool<Connection>, name: string): void {
    const version = pool.dns.versionOf(name, pool.owner)
    if (version === pool.dnsVersion) return
    pool.dnsVersion = version
    for (const connection of pool.idle.all())
      if (!this.#isCurrentAddress(pool, connection)) this.#options.drop(connection)
  }

  #isCurrentAddress({ origin: { name }, dns }: OriginPool<Connection>, connection: Connection): boolean {
    return name === undefined || dns.includes(name, this.#options.peerOf(connection))
  }
}
