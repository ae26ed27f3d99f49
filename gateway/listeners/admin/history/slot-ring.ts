/** Fine enough for the start of an incident, and an hour of a count takes 360 places. */
export const slotMs = 10_000

/** One hour. Metrics have the time before. */
export const slotCount = 360

export const slotAt = (epochMs: number): number => Math.floor(epochMs / slotMs)

export type SlotRange = Readonly<{ toSlot: number; slots: number; step: number }>

/** Groups begin at multiples of `step`, so that a plot keeps its groups as time passes. */
export const firstSlotOf = ({ toSlot, slots, step }: SlotRange): number => {
  const first = toSlot - Math.min(slots, slotCount) + 1
  return first - (first % step)
}

export type RingReading = Readonly<{
  rows: readonly (readonly number[])[]
  recent: readonly number[]
  before: readonly number[]
}>

/** The last minute against the ten before: a verdict follows an incident within a minute, and one spike is not one. */
export const recentSlots = 6
const beforeSlots = 60

/** Memory is allocated once; a slot is cleared when it is used again. */
export class SlotRing {
  readonly #width: number
  readonly #slots = new Float64Array(slotCount).fill(-1)
  readonly #counts: Uint32Array
  #lastSlot = -1

  constructor(width: number) {
    this.#width = width
    this.#counts = new Uint32Array(slotCount * width)
  }

  get lastSlot(): number {
    return this.#lastSlot
  }

  add(slot: number, column: number): void {
    const place = slot % slotCount
    const start = place * this.#width
    if (this.#slots[place] !== slot) {
      this.#counts.fill(0, start, start + this.#width)
      this.#slots[place] = slot
      this.#lastSlot = slot
    }
    this.#counts[start + column] = (this.#counts[start + column] as number) + 1
  }

  read(range: SlotRange): RingReading {
    const { toSlot } = range
    return {
      rows: this.#readRows(range),
      recent: this.#sum(toSlot - recentSlots + 1, toSlot),
      before: this.#sum(toSlot - recentSlots - beforeSlots + 1, toSlot - recentSlots),
    }
  }

  #readRows(range: SlotRange): readonly (readonly number[])[] {
    const rows: (readonly number[])[] = []
    for (let slot = firstSlotOf(range); slot <= range.toSlot; slot += range.step) {
      const counts = this.#sum(slot, Math.min(slot + range.step - 1, range.toSlot))
      if (counts.some((count) => count > 0)) rows.push([slot, ...counts])
    }
    return rows
  }

  #sum(from: number, to: number): readonly number[] {
    const counts = new Array<number>(this.#width).fill(0)
    for (let slot = Math.max(0, from); slot <= to; slot++) {
      const place = slot % slotCount
      if (this.#slots[place] !== slot) continue
      for (let column = 0; column < this.#width; column++)
        counts[column] = (counts[column] as number) + (this.#counts[place * this.#width + column] as number)
    }
    return counts
  }
}

export function mergeRings(parts: readonly RingReading[]): RingReading {
  const rows = new Map<number, readonly number[]>()
  for (const part of parts)
    for (const [slot = 0, ...counts] of part.rows) rows.set(slot, addCounts(rows.get(slot) ?? [], counts))
  return {
    rows: [...rows].sort(([one], [other]) => one - other).map(([slot, counts]) => [slot, ...counts]),
    recent: parts.reduce<readonly number[]>((sum, { recent }) => addCounts(sum, recent), []),
    before: parts.reduce<readonly number[]>((sum, { before }) => addCounts(sum, before), []),
  }
}

const addCounts = (one: readonly number[], other: readonly number[]): readonly number[] =>
  Array.from({ length: Math.max(one.length, other.length) }, (_, index) => (one[index] ?? 0) + (other[index] ?? 0))
