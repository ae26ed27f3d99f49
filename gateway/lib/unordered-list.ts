export type Slot<Member> = { member: Member | undefined; index: number }

/**
 * A list for thousands of members that come and go. Each table of a `Set` keeps the next table alive: once one has
 * grown old, every later member survives scavenges, which copy it.
 */
export class UnorderedList<Member> implements Iterable<Member> {
  readonly #places: Slot<Member>[] = []

  get size(): number {
    return this.#places.length
  }

  add(member: Member): Slot<Member> {
    const place: Slot<Member> = { member, index: 0 }
    this.addSlot(place)
    return place
  }

  /** Adds a member with a slot of its own: a member that is its own slot takes less memory. */
  addSlot(place: Slot<Member>): void {
    place.index = this.#places.length
    this.#places.push(place)
  }

  remove(place: Slot<Member>): void {
    if (place.member === undefined) return
    place.member = undefined
    const last = this.#places.pop()
    if (!last || last === place) return
    last.index = place.index
    this.#places[place.index] = last
  }

  /** Visits members from the end, so that each may be removed meanwhile. Unlike iteration it allocates nothing. */
  visit(visit: (member: Member) => void): void {
    for (let index = this.#places.length - 1; index >= 0; index--) {
      const member = this.#places[index]?.member
      if (member !== undefined) visit(member)
    }
  }

  /**
   * Visits members from a place downwards until `visit` returns false. Returns the place to go on from, below 0 at the
   * end. Members that are added or removed in between hide no earlier one.
   */
  visitDown(from: number, visit: (member: Member) => boolean): number {
    for (let index = Math.min(from, this.#places.length - 1); index >= 0; index--) {
      const member = this.#places[index]?.member
      if (member !== undefined && !visit(member)) return index - 1
    }
    return -1
  }

  [Symbol.iterator](): Iterator<Member> {
    return this.#places.map(({ member }) => member as Member).values()
  }
}
