import { lengthOf, takeFirst, type WaitingLine } from '../base/lib/line.ts'

export type TurnOptions<Item> = Readonly<{
  mostWaiting?: number | undefined
  mostPerOwner?: number | undefined
  /** How many places its owner may hold for this item to be taken. */
  shareOf?: (item: Item) => number
}>

type Line<Item> = WaitingLine<Item> & { readonly owner: string; held: number }

/**
 * Items that wait, owner by owner, and each owner in turn. Every operation takes constant time for an item, so that a flood
 * costs no more than its own items.
 */
export class Turns<Item> {
  readonly #mostWaiting: number
  readonly #mostPerOwner: number
  readonly #shareOf: ((item: Item) => number) | undefined
  readonly #lines = new Map<string, Line<Item>>()
  /** Lines that wait for nothing but their turn, in its order. */
  readonly #ready = new Map<string, Line<Item>>()
  readonly #ranks: ReturnType<typeof createRanks<Item>> | undefined
  #size = 0

  constructor({ mostWaiting, mostPerOwner, shareOf }: TurnOptions<Item> = {}) {
    this.#mostWaiting = mostWaiting ?? Number.POSITIVE_INFINITY
    this.#mostPerOwner = mostPerOwner ?? Number.POSITIVE_INFINITY
    this.#shareOf = shareOf
    if (mostWaiting !== undefined) this.#ranks = createRanks()
  }

  get size(): number {
    return this.#size
  }

  /**
   * Returns the item that is refused: this one if `mostPerOwner` of its owner wait, and if the queue is full the newest
   * of the owner with most.
   */
  push(owner: string, item: Item): Item | undefined {
    const line = this.#lines.get(owner) ?? { owner, items: [], next: 0, held: 0 }
    const length = lengthOf(line)
    if (length >= this.#mostPerOwner) return item
    let dropped: Item | undefined
    if (this.#size >= this.#mostWaiting) {
      const greediest = this.#ranks?.first()
      if (!greediest || length + 1 >= lengthOf(greediest)) return item
      dropped = this.#dropLast(greediest)
    }
    line.items.push(item)
    this.#lines.set(owner, line)
    this.#resize(line, length)
    return dropped
  }

  /** With shares, each item holds a place of its owner until `release`. */
  take(count: number): readonly Item[] {
    const taken: Item[] = []
    while (taken.length < count) {
      const [line] = this.#ready.values()
      if (!line) break
      const item = this.#takeNext(line)
      if (item !== undefined) taken.push(item)
    }
    return taken
  }

  release(owner: string): void {
    const line = this.#lines.get(owner)
    if (!line || line.held === 0) return
    line.held -= 1
    this.#place(line)
  }

  #takeNext(line: Line<Item>): Item | undefined {
    const length = lengthOf(line)
    const item = takeFirst(line)
    if (this.#shareOf) line.held += 1
    // To the end of the turn, if it still waits.
    this.#ready.delete(line.owner)
    this.#resize(line, length)
    return item
  }

  #dropLast(line: Line<Item>): Item | undefined {
    const length = lengthOf(line)
    const item = line.items.pop()
    this.#resize(line, length)
    return item
  }

  #resize(line: Line<Item>, from: number): void {
    const length = lengthOf(line)
    this.#ranks?.move(line, from, length)
    this.#size += length - from
    this.#place(line)
  }

  #place(line: Line<Item>): void {
    if (!this.#isReady(line)) this.#ready.delete(line.owner)
    else if (!this.#ready.has(line.owner)) this.#ready.set(line.owner, line)
    if (lengthOf(line) === 0 && line.held === 0) this.#lines.delete(line.owner)
  }

  #isReady(line: Line<Item>): boolean {
    const next = line.items[line.next]
    return next !== undefined && (!this.#shareOf || line.held < Math.max(1, this.#shareOf(next)))
  }
}

function createRanks<Item>() {
  const byLength: Set<Line<Item>>[] = []
  let longest = 0
  return {
    move: (line: Line<Item>, from: number, length: number): void => {
      byLength[from]?.delete(line)
      if (length > 0) {
        byLength[length] ??= new Set()
        byLength[length].add(line)
      }
      longest = Math.max(longest, length)
      while (longest > 0 && !byLength[longest]?.size) longest -= 1
    },
    first: (): Line<Item> | undefined => byLength[longest]?.values().next().value,
  }
}
