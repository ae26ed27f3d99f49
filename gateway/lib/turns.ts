import { lengthOf, takeFirst as shift, type WaitingLine } from './line.ts'

export type Turns<Item> = Readonly<{
  /** Queues an item. If the queue is full, the last item of the owner with most items is dropped and returned. */
  push: (owner: string, item: Item) => Item | undefined
  take: (count: number) => readonly Item[]
  size: () => number
}>

type OwnLine<Item> = WaitingLine<Item> & { readonly owner: string }

/** Every operation takes constant time for an item, so that a flood costs no more than its own items. */
export function createTurns<Item>(maxItems: number): Turns<Item> {
  const lines = new Map<string, OwnLine<Item>>()
  const ranks = maxItems === Number.POSITIVE_INFINITY ? undefined : createRanks<Item>()
  let size = 0

  const resize = (line: OwnLine<Item>, from: number): void => {
    const length = lengthOf(line)
    ranks?.move(line, from, length)
    size += length - from
    if (length === 0) lines.delete(line.owner)
  }
  const takeFirst = (line: OwnLine<Item>): Item | undefined => {
    const length = lengthOf(line)
    const item = shift(line)
    resize(line, length)
    return item
  }
  const dropLast = (line: OwnLine<Item>): Item | undefined => {
    const length = lengthOf(line)
    const item = line.items.pop()
    resize(line, length)
    return item
  }

  return {
    push: (owner, item) => {
      let dropped: Item | undefined
      if (size >= maxItems) {
        const held = lines.get(owner)
        const greediest = ranks?.first()
        if (!greediest || (held ? lengthOf(held) : 0) + 1 >= lengthOf(greediest)) return item
        dropped = dropLast(greediest)
      }
      const line = lines.get(owner) ?? { owner, items: [], next: 0 }
      const length = lengthOf(line)
      line.items.push(item)
      lines.set(owner, line)
      resize(line, length)
      return dropped
    },
    take: (count) => {
      const taken: Item[] = []
      while (taken.length < count && size > 0) {
        const [line] = lines.values()
        if (!line) break
        const item = takeFirst(line)
        if (item !== undefined) taken.push(item)
        if (lines.delete(line.owner)) lines.set(line.owner, line)
      }
      return taken
    },
    size: () => size,
  }
}

function createRanks<Item>() {
  const byLength: Set<OwnLine<Item>>[] = []
  let longest = 0
  return {
    move: (line: OwnLine<Item>, from: number, length: number): void => {
      byLength[from]?.delete(line)
      if (length > 0) {
        byLength[length] ??= new Set()
        byLength[length].add(line)
      }
      longest = Math.max(longest, length)
      while (longest > 0 && !byLength[longest]?.size) longest -= 1
    },
    first: (): OwnLine<Item> | undefined => byLength[longest]?.values().next().value,
  }
}
