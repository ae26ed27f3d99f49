export type WaitingLine<Item> = { items: Item[]; next: number }

export const lengthOf = <Item>({ items, next }: WaitingLine<Item>): number => items.length - next

export function takeFirst<Item>(line: WaitingLine<Item>): Item | undefined {
  const item = line.items[line.next]
  line.next += 1
  // A line that never empties would keep all that it has served, and `shift` moves all that is left of a long array.
  if (line.next === line.items.length || (line.next > 32 && line.next * 2 > line.items.length)) {
    line.items = line.items.slice(line.next)
    line.next = 0
  }
  return item
}
