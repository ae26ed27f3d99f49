import type { UpstreamRequest } from './engine.ts'
import type { Names } from './names.ts'
import { type Origin, readOrigin } from './origin.ts'

/** What the connections to one place share. */
export type Home<Connection> = {
  readonly key: string
  readonly origin: Origin
  readonly tls: UpstreamRequest['tls']
  /** The one that fell idle last comes last. */
  readonly idle: Connection[]
  changes: number
}

export type HomesOptions<Connection> = Readonly<{
  names: Names
  /** The address that a connection leads to. */
  peerOf: (connection: Connection) => string | undefined
  drop: (connection: Connection) => void
}>

/** Idle connections by where they lead, and with which certificates. */
export class Homes<Connection> {
  readonly #homes = new Map<string, Home<Connection>>()
  readonly #options: HomesOptions<Connection>

  constructor(options: HomesOptions<Connection>) {
    this.#options = options
  }

  /** `more` parts the homes of one origin that differ in something else. */
  find({ origin, tls }: Pick<UpstreamRequest, 'origin' | 'tls'>, more = ''): Home<Connection> {
    const key = tls ? `${more} ${tls.upstream} ${origin}` : more + origin
    const known = this.#homes.get(key)
    if (known && known.tls === tls) return known
    const home = { key, origin: readOrigin(origin, tls, this.#options.names), tls, idle: [], changes: 0 }
    this.#homes.set(key, home)
    // Other certificates are in force: what was opened with those before serves nobody new.
    for (const connection of [...(known?.idle ?? [])]) this.#options.drop(connection)
    return home
  }

  takeIdle(home: Home<Connection>): Connection | undefined {
    if (home.origin.name !== undefined) this.#retireMoved(home, home.origin.name)
    return home.idle.pop()
  }

  /** False for a connection that must not serve again. */
  keep(home: Home<Connection>, connection: Connection): boolean {
    if (this.#homes.get(home.key) !== home || !this.#leadsThere(home, connection)) return false
    home.idle.push(connection)
    return true
  }

  /** An idle one of whatever home, to make room. */
  findSpare(): Connection | undefined {
    for (const { idle } of this.#homes.values()) if (idle[0] !== undefined) return idle[0]
    return undefined
  }

  #retireMoved(home: Home<Connection>, name: string): void {
    const changes = this.#options.names.countChanges(name)
    if (changes === home.changes) return
    home.changes = changes
    for (const connection of [...home.idle]) if (!this.#leadsThere(home, connection)) this.#options.drop(connection)
  }

  #leadsThere({ origin: { name } }: Home<Connection>, connection: Connection): boolean {
    return name === undefined || this.#options.names.holds(name, this.#options.peerOf(connection))
  }
}
