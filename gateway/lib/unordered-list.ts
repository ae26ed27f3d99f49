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
    const place: Slot<Member> = { member, index: this.#places.length }
    this.#places.push(place)
    return place
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

  /** Iterates over a copy: members may be removed meanwhile. */
  [Symbol.iterator](): Iterator<Member> {
    return this.#places.map(({ member }) => member as Member).values()
  }
}
