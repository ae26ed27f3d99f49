import type { UpstreamRequest } from '../engine.ts'
import type { DnsCache } from './dns-cache.ts'
import { type Origin, readOrigin } from './origin.ts'

export type OriginPool<Connection> = {
  readonly key: string
  readonly origin: Origin
  readonly dns: DnsCache
  readonly tls: UpstreamRequest['tls']
  readonly networks: UpstreamRequest['networks']
  readonly idle: Connection[]
  dnsVersion: number
}

export type UpstreamTarget = Pick<UpstreamRequest, 'origin' | 'tls' | 'networks'>

export type OriginPoolsOptions<Connection> = Readonly<{
  dns: DnsCache
  clusterDns: DnsCache
  peerOf: (connection: Connection) => string | undefined
  drop: (connection: Connection) => void
}>

export const mostPools = 1_000

export class OriginPools<Connection> {
  readonly #pools = new Map<string, OriginPool<Connection>>()
  readonly #options: OriginPoolsOptions<Connection>

  constructor(options: OriginPoolsOptions<Connection>) {
    this.#options = options
  }

  find({ origin, tls, networks }: UpstreamTarget): OriginPool<Connection> {
    const place = tls ? `${tls.upstream} ${origin}` : origin
    // A connection whose address was not checked serves no request that demands the check.
    const key = networks ? `admitted ${place}` : place
    const known = this.#pools.get(key)
    if (known && known.tls === tls && known.networks === networks) return known
    const dns = networks ? this.#options.clusterDns : this.#options.dns
    const found = readOrigin(origin, tls, dns, networks)
    const pool = { key, origin: found, dns, tls, networks, idle: [], dnsVersion: 0 }
    this.#pools.set(key, pool)
    if (this.#pools.size > mostPools) this.#dropOldest()
    for (const connection of [...(known?.idle ?? [])]) this.#options.drop(connection)
    return pool
  }

  takeIdle(pool: OriginPool<Connection>): Connection | undefined {
    if (pool.origin.name !== undefined) this.#dropStaleAddresses(pool, pool.origin.name)
    return pool.idle.pop()
  }

  keep(pool: OriginPool<Connection>, connection: Connection): boolean {
    if (this.#pools.get(pool.key) !== pool || !this.#isCurrentAddress(pool, connection)) return false
    pool.idle.push(connection)
    return true
  }

  #dropOldest(): void {
    const [oldest] = this.#pools.values()
    if (!oldest) return
    this.#pools.delete(oldest.key)
    for (const connection of [...oldest.idle]) this.#options.drop(connection)
  }

  get size(): number {
    return this.#pools.size
  }

  oldestIdle(): Connection | undefined {
    for (const { idle } of this.#pools.values()) if (idle[0] !== undefined) return idle[0]
    return undefined
  }

  #dropStaleAddresses(pool: OriginPool<Connection>, name: string): void {
    const version = pool.dns.versionOf(name)
    if (version === pool.dnsVersion) return
    pool.dnsVersion = version
    for (const connection of [...pool.idle])
      if (!this.#isCurrentAddress(pool, connection)) this.#options.drop(connection)
  }

  #isCurrentAddress({ origin: { name }, dns }: OriginPool<Connection>, connection: Connection): boolean {
    return name === undefined || dns.includes(name, this.#options.peerOf(connection))
  }
}
