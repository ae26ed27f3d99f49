import type { HistoryQuery } from '../gateway/listeners/admin/history/history.ts'
import { type RequestFilter, requestKinds } from '../gateway/listeners/admin/history/recent-requests.ts'
import { slotAt, slotMs } from '../gateway/listeners/admin/history/slot-ring.ts'

export type ConsoleQuery = Readonly<{ minutes: number; route: string; upstream: string; filter: RequestFilter }>

export const slotsPerPoint: ReadonlyMap<number, number> = new Map([
  [5, 1],
  [15, 2],
  [60, 6],
])

const usualMinutes = 15
const wordLimit = 256

export function readConsoleQuery(parameters: URLSearchParams): ConsoleQuery {
  const read = (name: string): string => (parameters.get(name) ?? '').slice(0, wordLimit)
  const minutes = Number(read('range'))
  const kind = read('kind')
  const [route, upstream] = [read('route'), read('upstream')]
  return {
    minutes: slotsPerPoint.has(minutes) ? minutes : usualMinutes,
    route,
    upstream,
    filter: {
      kind: requestKinds.some((known) => known === kind) ? kind : '',
      reason: read('reason'),
      route,
      upstream,
      text: read('find').trim(),
      requestId: read('id').trim(),
    },
  }
}

export const toHistoryQuery = ({ minutes, filter }: ConsoleQuery, now: Date): HistoryQuery => ({
  toSlot: slotAt(now.getTime()),
  slots: (minutes * 60_000) / slotMs,
  step: slotsPerPoint.get(minutes) ?? 1,
  filter,
})

export function linkTo(query: ConsoleQuery, change: Readonly<Record<string, string>>, section: string): string {
  const { kind, reason, text, requestId } = query.filter
  const { route, upstream } = query
  const words = { range: String(query.minutes), route, upstream, kind, reason, find: text, id: requestId, ...change }
  const asked = Object.entries(words).filter(([, value]) => value !== '')
  return `/?${new URLSearchParams(asked).toString()}#${section}`
}
