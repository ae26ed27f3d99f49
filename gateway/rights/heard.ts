/** When something was heard of a subject last, as positions of a log or as milliseconds; 0 if nothing was. */
export class Moments {
  readonly #byKind = new Map<string, Map<number, number>>()

  note(kind: string, id: number, moment: number): void {
    const moments = this.#byKind.get(kind)
    if (moments) moments.set(id, moment)
    else this.#byKind.set(kind, new Map([[id, moment]]))
  }

  at(kind: string, id: number | undefined): number {
    return id === undefined ? 0 : (this.#byKind.get(kind)?.get(id) ?? 0)
  }
}

/** The moment of the latest change that names a subject of the facts in question; 0 if none does. */
export type FindLatest = (moments: Moments) => number

/** One statement names at most as many. When more came since facts were read, one of them may concern these. */
const remembered = 20_000

/**
 * The one log of changes that were heard. A position counts the changes before it, and facts that were read at a position
 * are out of date if anything since names them.
 *
 * Two parts of `remembered` changes each are kept; of the time before them the log says that anything may have changed.
 */
export class HeardLog {
  #current = new Moments()
  #earlier = new Moments()
  #currentFrom = 0
  #earlierFrom = 0
  #everythingAt = 0
  #position = 0

  get position(): number {
    return this.#position
  }

  note(kind: string, id: number): void {
    this.#current.note(kind, id, this.#advance())
    this.#turnOver()
  }

  noteEverything(): void {
    this.#everythingAt = this.#advance()
    this.#turnOver()
  }

  /** Something happened that names no subject, such as a logout: a holder of an earlier position must look. */
  noteUnnamed(): void {
    this.#advance()
    this.#turnOver()
  }

  /** Whether anything at all was heard since. Enough for one who asks at every change, such as a load under way. */
  anySince(position: number): boolean {
    return position !== this.#position
  }

  since(findLatest: FindLatest, position: number): boolean {
    if (!this.anySince(position)) return false
    if (position < this.#earlierFrom || position < this.#everythingAt) return true
    return Math.max(findLatest(this.#current), findLatest(this.#earlier)) > position
  }

  #advance(): number {
    this.#position += 1
    return this.#position
  }

  #turnOver(): void {
    if (this.#position - this.#currentFrom < remembered) return
    this.#earlier = this.#current
    this.#earlierFrom = this.#currentFrom
    this.#current = new Moments()
    this.#currentFrom = this.#position
  }
}

const never = Number.POSITIVE_INFINITY

/**
 * Changes of a followed table that were heard and are not read yet, as the moment of the first. Facts of an earlier read
 * are known to hold up to it. A change that is heard during a read may have come too late, and waits for the next one.
 */
export class UnreadChanges {
  #waitingMs = never
  #beingReadMs = never

  get firstMs(): number {
    return Math.min(this.#waitingMs, this.#beingReadMs)
  }

  note(atMs: number): void {
    this.#waitingMs = Math.min(this.#waitingMs, atMs)
  }

  /** After a read that failed, its changes are among those of this one. */
  beginRead(): void {
    this.#beingReadMs = this.firstMs
    this.#waitingMs = never
  }

  endRead(): void {
    this.#beingReadMs = never
  }
}
