// The backend's side: one pool for each origin, names and addresses, and one request at a time on a connection.
import { LinkedList } from '../../base/lib/linked-list.ts'
import { UnorderedList } from '../../base/lib/unordered-list.ts'
import { WholeTurn } from '../../base/lib/whole-turn.ts'
import type { UpstreamRequest } from '../engine.ts'
import { type ConnectionEvents, UpstreamConnection } from './connection.ts'
import type { DnsCache } from './dns-cache.ts'
import { type OriginPool, OriginPools } from './origin-pools.ts'
import type { DistrustedOrigins } from './surplus.ts'

export type PoolOptions = Readonly<{
  limit: number
  dns: DnsCache
  clusterDns: DnsCache
  distrusted: DistrustedOrigins
  monotonicMs: () => number
}>

const drop = (connection: UpstreamConnection): void => connection.drop()

export class ConnectionPool {
  readonly #limit: number
  readonly #distrusted: DistrustedOrigins
  readonly #pools: OriginPools<UpstreamConnection>
  readonly #open = new UnorderedList<UpstreamConnection>()
  readonly #counts = new Map<string, number>()
  /** Those whose answer is complete, and that are not idle: they wait for a turn, or for their upstream's close. */
  readonly #answered = new LinkedList<UpstreamConnection>()
  readonly #turn = new WholeTurn<UpstreamConnection>((connection) => connection.offer(), drop)
  readonly #eventsByPool = new WeakMap<OriginPool<UpstreamConnection>, ConnectionEvents>()

  constructor({ limit, distrusted, ...options }: PoolOptions) {
    this.#limit = limit
    this.#distrusted = distrusted
    this.#pools = new OriginPools({ ...options, peerOf: ({ peerAddress }) => peerAddress, drop })
  }

  /** An idle connection, which this owner had before if there is one, or a new one; undefined if all are busy. */
  acquire(request: UpstreamRequest): UpstreamConnection | undefined {
    const { isFreshConnection, asksForWebSocket } = request
    const pool = this.#pools.find(request)
    const kept = isFreshConnection || asksForWebSocket ? undefined : this.#takeIdle(pool, request)
    return kept ?? (this.#hasRoom() ? this.#openConnection(pool, asksForWebSocket) : undefined)
  }

  count(): ReadonlyMap<string, number> {
    return this.#counts
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open].map((connection) => connection.close()))
  }

  #takeIdle(pool: OriginPool<UpstreamConnection>, { sharing }: UpstreamRequest): UpstreamConnection | undefined {
    if (this.#distrusts(pool)) return undefined
    for (;;) {
      const idle = this.#pools.takeIdle(pool, sharing?.owner ?? '', sharing?.isIsolated ?? false)
      if (idle === undefined || idle.take()) return idle
      // The gate of an idle connection is open. One with a closed gate serves no other request.
      idle.drop()
    }
  }

  #hasRoom(): boolean {
    if (this.#open.size < this.#limit) return true
    const { first } = this.#answered
    const spare = first?.isLingering ? first : (this.#pools.oldestIdle() ?? first)
    spare?.drop()
    return spare !== undefined
  }

  #openConnection(pool: OriginPool<UpstreamConnection>, isForUpgrade: boolean): UpstreamConnection {
    let events = this.#eventsByPool.get(pool)
    if (!events) {
      events = this.#createEvents(pool)
      this.#eventsByPool.set(pool, events)
    }
    const connection = new UpstreamConnection(pool.origin, isForUpgrade, events)
    connection.slot = this.#open.add(connection)
    this.#change(connection.origin, 1)
    return connection
  }

  #createEvents(pool: OriginPool<UpstreamConnection>): ConnectionEvents {
    const { origin } = pool.origin
    const isCluster = pool.networks !== undefined
    return {
      answered: (connection) => {
        connection.isAnswered = true
        this.#answered.push(connection)
        if (!connection.isLingering) this.#turn.add(connection)
      },
      keep: (connection) => {
        this.#leaveAnswered(connection)
        if (!this.#pools.keep(pool, connection)) connection.drop()
      },
      forget: (connection) => {
        if (connection.slot?.member !== undefined) {
          this.#change(connection.origin, -1)
          this.#open.remove(connection.slot)
        }
        if (connection.isAnswered) this.#leaveAnswered(connection)
        else pool.idle.remove(connection)
      },
      distrusts: () => this.#distrusts(pool),
      noteSurplus: (surplus) => this.#distrusted.note({ ...surplus, origin, isCluster }),
    }
  }

  #distrusts({ origin, networks }: OriginPool<UpstreamConnection>): boolean {
    return this.#distrusted.has(origin.origin, networks !== undefined)
  }

  #leaveAnswered(connection: UpstreamConnection): void {
    connection.isAnswered = false
    this.#answered.remove(connection)
  }

  #change(origin: string, change: 1 | -1): void {
    const number = (this.#counts.get(origin) ?? 0) + change
    if (number === 0) this.#counts.delete(origin)
    else this.#counts.set(origin, number)
  }
}
