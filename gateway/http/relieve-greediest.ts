type Group = Readonly<{ heldBytes: number }>

type Member = Readonly<{ heldBytes: number; relieve: () => void }>

class Candidate<Each extends Member> {
  readonly group: Group
  rankedBytes = 0
  #waiting: Each[] = []
  #sorted: Each[] = []

  constructor(group: Group) {
    this.group = group
  }

  add(member: Each): void {
    this.#waiting.push(member)
  }

  takeLargest(): Each | undefined {
    if (this.#sorted.length === 0) {
      this.#sorted = this.#waiting.sort((one, other) => one.heldBytes - other.heldBytes)
      this.#waiting = []
    }
    return this.#sorted.pop()
  }
}

/**
 * Relieves the largest members of the largest groups until it is enough. Each look at the next one takes logarithmic
 * time, by a heap: a crowd may have a group for each of its members. A group whose bytes have changed is ranked again.
 */
export function relieveGreediest<Each extends Member>(
  members: Iterable<Each>,
  groupsOf: (member: Each) => readonly Group[],
  isEnough: () => boolean,
): void {
  const candidates = new Map<Group, Candidate<Each>>()
  for (const member of members)
    for (const group of member.heldBytes > 0 ? groupsOf(member) : []) {
      const candidate = candidates.get(group) ?? new Candidate<Each>(group)
      candidates.set(group, candidate)
      candidate.add(member)
    }
  const ranks = new LargestFirst<Each>()
  for (const candidate of candidates.values()) ranks.add(candidate)
  while (!isEnough()) {
    const greediest = ranks.takeFirst()
    if (!greediest) return
    const { group, rankedBytes } = greediest
    const isFirst = group.heldBytes === rankedBytes
    if (!isFirst || relieveDownTo(ranks.firstBytes(), greediest, isEnough)) ranks.add(greediest)
  }
}

function relieveDownTo<Each extends Member>(
  bytes: number,
  candidate: Candidate<Each>,
  isEnough: () => boolean,
): boolean {
  while (candidate.group.heldBytes >= bytes && !isEnough()) {
    const member = candidate.takeLargest()
    if (!member) return false
    if (member.heldBytes > 0) member.relieve()
    if (member.heldBytes > 0) candidate.add(member)
  }
  return true
}

class LargestFirst<Each extends Member> {
  readonly #heap: Candidate<Each>[] = []

  firstBytes(): number {
    return this.#bytesAt(0)
  }

  add(candidate: Candidate<Each>): void {
    candidate.rankedBytes = candidate.group.heldBytes
    this.#heap.push(candidate)
    let at = this.#heap.length - 1
    for (let above = (at - 1) >> 1; at > 0 && this.#bytesAt(at) > this.#bytesAt(above); above = (at - 1) >> 1)
      at = this.#swap(at, above)
  }

  takeFirst(): Candidate<Each> | undefined {
    const [first] = this.#heap
    const last = this.#heap.pop()
    if (!last || last === first) return first
    this.#heap[0] = last
    for (let at = 0, below = this.#largerBelow(at); this.#bytesAt(below) > this.#bytesAt(at); ) {
      at = this.#swap(at, below)
      below = this.#largerBelow(at)
    }
    return first
  }

  #largerBelow(at: number): number {
    const left = 2 * at + 1
    return this.#bytesAt(left + 1) > this.#bytesAt(left) ? left + 1 : left
  }

  #bytesAt(at: number): number {
    return this.#heap[at]?.rankedBytes ?? Number.NEGATIVE_INFINITY
  }

  #swap(at: number, other: number): number {
    const [one, another] = [this.#heap[at], this.#heap[other]]
    if (one && another) {
      this.#heap[other] = one
      this.#heap[at] = another
    }
    return other
  }
}
