/** A member's slot in its list, by which it is removed. */
export type Slot<Member> = { member: Member | undefined; index: number }

/**
 * Members that come and go by the thousand, in no order. Not a `Set`, each of whose tables keeps the one that took its
 * place: once one of them has grown old, everybody who was ever in a later one outlives every scavenge, and is copied by it.
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

  /** Whoever has left may leave again. */
  remove(place: Slot<Member>): void {
    if (place.member === undefined) return
    place.member = undefined
    const last = this.#places.pop()
    if (!last || last === place) return
    last.index = place.index
    this.#places[place.index] = last
  }

  /** Visits each member, the last one first: a member may leave meanwhile. Unlike iteration it takes no memory. */
  visit(visit: (member: Member) => void): void {
    for (let index = this.#places.length - 1; index >= 0; index--) {
      const member = this.#places[index]?.member
      if (member !== undefined) visit(member)
    }
  }

  /** Those who are here now: they may leave while one goes through them. */
  [Symbol.iterator](): Iterator<Member> {
    return this.#places.map(({ member }) => member as Member).values()
  }
}
