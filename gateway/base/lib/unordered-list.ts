export type Slot<Member> = { member: Member | undefined; index: number }

/**
 * A list for thousands of members that come and go. Each table of a `Set` keeps the next table alive: once one has
 * grown old, every later member survives scavenges, which copy it.
 */
export class UnorderedList<Member> implements Iterable<Member> {
  readonly #slots: Slot<Member>[] = []

  get size(): number {
    return this.#slots.length
  }

  add(member: Member): Slot<Member> {
    const slot: Slot<Member> = { member, index: 0 }
    this.addSlot(slot)
    return slot
  }

  /** Adds a member with a slot of its own: a member that is its own slot takes less memory. */
  addSlot(slot: Slot<Member>): void {
    slot.index = this.#slots.length
    this.#slots.push(slot)
  }

  remove(slot: Slot<Member>): void {
    if (slot.member === undefined) return
    slot.member = undefined
    const last = this.#slots.pop()
    if (!last || last === slot) return
    last.index = slot.index
    this.#slots[slot.index] = last
  }

  /** Visits members from the end, so that each may be removed meanwhile. Unlike iteration it allocates nothing. */
  visit(visit: (member: Member) => void): void {
    for (let index = this.#slots.length - 1; index >= 0; index--) {
      const member = this.#slots[index]?.member
      if (member !== undefined) visit(member)
    }
  }

  /**
   * Visits members from an index downwards until `visit` returns false. Returns the index to go on from, below 0 at the
   * end. Members that are added or removed in between hide no earlier one.
   */
  visitDown(from: number, visit: (member: Member) => boolean): number {
    for (let index = Math.min(from, this.#slots.length - 1); index >= 0; index--) {
      const member = this.#slots[index]?.member
      if (member !== undefined && !visit(member)) return index - 1
    }
    return -1
  }

  [Symbol.iterator](): Iterator<Member> {
    return this.#slots.map(({ member }) => member as Member).values()
  }
}
