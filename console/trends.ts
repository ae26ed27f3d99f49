import {
  firstSlotOf,
  type RingReading,
  recentSlots,
  type SlotRange,
  slotMs,
} from '../gateway/listeners/admin/history/slot-ring.ts'
import { columns, readPercentile } from '../gateway/listeners/admin/history/traffic.ts'

export type Trend = Readonly<{
  perSecond: (column: number) => readonly number[]
  percentiles: (part: number) => readonly (number | undefined)[]
  sum: (column: number) => number
  percentile: (part: number) => number | undefined
}>

/** The last group is not over, so its rate uses the seconds that have passed, but at least this many. */
const leastSeconds = 5

export function readTrend({ rows }: Pick<RingReading, 'rows'>, range: SlotRange, now: Date): Trend {
  const groups = listGroups(range)
  const bySlot = new Map(rows.map(([slot = 0, ...counts]) => [slot, counts]))
  const all = rows.reduce<readonly number[]>(
    (sums, [, ...counts]) => counts.map((count, index) => count + (sums[index] ?? 0)),
    [],
  )
  const secondsOf = (slot: number): number => {
    const passed = (now.getTime() - slot * slotMs) / 1_000
    return Math.max(leastSeconds, Math.min((range.step * slotMs) / 1_000, passed))
  }
  return {
    perSecond: (column) => groups.map((slot) => (bySlot.get(slot)?.[column] ?? 0) / secondsOf(slot)),
    percentiles: (part) => groups.map((slot) => readPercentile(bySlot.get(slot) ?? [], part)),
    sum: (column) => all[column] ?? 0,
    percentile: (part) => readPercentile(all, part),
  }
}

const listGroups = (range: SlotRange): readonly number[] => {
  const first = firstSlotOf(range)
  const count = Math.floor((range.toSlot - first) / range.step) + 1
  return Array.from({ length: count }, (_, index) => first + index * range.step)
}

export function readRecentRate({ recent }: Pick<RingReading, 'recent'>, now: Date): number {
  const seconds = ((recentSlots - 1) * slotMs + (now.getTime() % slotMs)) / 1_000
  return (recent[columns.requests] ?? 0) / seconds
}
