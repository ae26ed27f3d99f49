import { type Linked, LinkedList } from '../../base/lib/linked-list.ts'

/** The organization whose answers a connection bears, or the user without one. */
export type AnswerOwner = number | string

export type Idling<Connection> = Linked<Connection> & {
  owner: AnswerOwner
  /** Answers so far. */
  served: number
  idleSinceMs: number
  /** Whether it has been silent for `restMs` since its last answer. */
  isRested: boolean
}

/**
 * Silence after which a connection may serve another owner. Late bytes beyond an answer can't be told from the next
 * answer, so in this time they can meet only the owner of the answer. Backends that answer twice do so within some
 * milliseconds. Each 25 ms keep a connection more open for every 40 requests a second.
 */
export const restMs = 25

/**
 * After so many answers a connection rests, even for its own owner. An answer that came one request late would shift
 * all later ones as well, for as long as the next request comes before it: the rest shows it.
 */
const answersBetweenRests = 100

/**
 * The idle connections of one origin. Its own owner gets the one that became idle last, so that the others may time
 * out; another owner gets one that has rested.
 */
export class IdleConnections<Connection extends Idling<Connection>> {
  readonly #byOwner = new Map<AnswerOwner, Connection[]>()
  /** By the time at which they became idle. */
  readonly #fresh = new LinkedList<Connection>()
  readonly #rested = new LinkedList<Connection>()

  add(connection: Connection, nowMs: number): void {
    connection.idleSinceMs = nowMs
    connection.isRested = false
    this.#fresh.push(connection)
    if (connection.served % answersBetweenRests !== 0) this.#offerToOwner(connection)
  }

  take(owner: AnswerOwner, isIsolated: boolean, nowMs: number): Connection | undefined {
    this.#rest(nowMs)
    const own = this.#byOwner.get(owner)?.at(-1)
    const connection = own ?? (isIsolated ? undefined : this.#rested.last)
    if (connection) this.remove(connection)
    return connection
  }

  /** Does nothing for a connection that is not idle here. */
  remove(connection: Connection): void {
    const list = connection.isRested ? this.#rested : this.#fresh
    if (connection.previous === undefined && list.first !== connection) return
    list.remove(connection)
    connection.isRested = false
    const own = this.#byOwner.get(connection.owner)
    const index = own?.lastIndexOf(connection) ?? -1
    if (!own || index < 0) return
    own.splice(index, 1)
    if (own.length === 0) this.#byOwner.delete(connection.owner)
  }

  get oldest(): Connection | undefined {
    return this.#rested.first ?? this.#fresh.first
  }

  all(): readonly Connection[] {
    const all: Connection[] = []
    for (const { first } of [this.#rested, this.#fresh])
      for (let connection = first; connection; connection = connection.next) all.push(connection)
    return all
  }

  #rest(nowMs: number): void {
    for (let next = this.#fresh.first; next && nowMs - next.idleSinceMs >= restMs; next = this.#fresh.first) {
      this.#fresh.remove(next)
      next.isRested = true
      this.#rested.push(next)
      if (next.served % answersBetweenRests === 0) this.#offerToOwner(next)
    }
  }

  #offerToOwner(connection: Connection): void {
    const own = this.#byOwner.get(connection.owner)
    if (own) own.push(connection)
    else this.#byOwner.set(connection.owner, [connection])
  }
}
