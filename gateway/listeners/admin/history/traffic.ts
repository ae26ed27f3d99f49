import { codeOf, type RefusalCause } from '../../../base/errors/gateway-error.ts'
import { mergeRings, type RingReading, type SlotRange, SlotRing, slotAt } from './slot-ring.ts'

export const columns = { requests: 0, refused: 1, failed: 2, unreachable: 3, timedOut: 4 } as const

const firstLatency = Object.keys(columns).length

export const latencyBounds = [2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000] as const

const width = firstLatency + latencyBounds.length + 1

/** Beyond the limit a new name replaces the one that has been idle longest. Each takes 30 kB. */
const routeLimit = 256
const upstreamLimit = 96

/** Causes come from the error catalogue and from upstreams' statuses. Each takes 6 kB. */
const causeLimit = 200

export class Traffic {
  readonly #total = new SlotRing(width)
  readonly #routes = new Map<string, SlotRing>()
  readonly #upstreams = new Map<string, UpstreamTraffic>()
  readonly #causes = new Map<string, SlotRing>()
  readonly #drops = new Map<string, SlotRing>()

  countRequest(slot: number, route: string): void {
    this.#total.add(slot, columns.requests)
    this.#route(route).add(slot, columns.requests)
  }

  countRefused(slot: number, route: string, cause: string): void {
    this.#total.add(slot, columns.refused)
    this.#route(route).add(slot, columns.refused)
    this.#countCause(slot, cause, causeColumns.refused)
  }

  countFailed(slot: number, route: string, cause: string): void {
    this.#total.add(slot, columns.failed)
    this.#route(route).add(slot, columns.failed)
    this.#countCause(slot, cause, causeColumns.failed)
  }

  countDropped(slot: number, reason: string): void {
    find(this.#drops, reason, causeLimit, makeNarrow).add(slot, 0)
  }

  observeLatency(slot: number, route: string, ms: number): void {
    const column = latencyColumn(ms)
    this.#total.add(slot, column)
    this.#route(route).add(slot, column)
  }

  upstream(name: string): UpstreamTraffic {
    return find(this.#upstreams, name, upstreamLimit, makeUpstream)
  }

  read(range: SlotRange): TrafficReading {
    const readAll = (rings: ReadonlyMap<string, SlotRing>): readonly NamedRing[] =>
      [...rings].map(([name, ring]) => ({ name, ...ring.read(range) }))
    return {
      total: this.#total.read(range),
      routes: readAll(this.#routes),
      upstreams: [...this.#upstreams].map(([name, upstream]) => ({ name, ...upstream.read(range) })),
      causes: readAll(this.#causes),
      drops: readAll(this.#drops),
    }
  }

  #route(route: string): SlotRing {
    return find(this.#routes, route, routeLimit, makeWide)
  }

  #countCause(slot: number, cause: string, column: number): void {
    find(this.#causes, cause, causeLimit, makeCause).add(slot, column)
  }
}

export const nameCode = (cause: string): string => codeOf(cause as RefusalCause)

export const causeColumns = { refused: 0, failed: 1 } as const

const makeWide = (): SlotRing => new SlotRing(width)
const makeCause = (): SlotRing => new SlotRing(2)
const makeNarrow = (): SlotRing => new SlotRing(1)
const makeUpstream = (): UpstreamTraffic => new UpstreamTraffic()

export class UpstreamTraffic {
  readonly #ring = makeWide()
  #waiting = 0
  #settledMs = 0

  get lastSlot(): number {
    return this.#ring.lastSlot
  }

  begin(epochMs: number): void {
    if (this.#waiting === 0) this.#settledMs = epochMs
    this.#waiting += 1
  }

  answered(status: number, ms: number, epochMs: number): void {
    const slot = this.#settle(ms, epochMs)
    if (isServerFailure(status)) this.#ring.add(slot, columns.failed)
  }

  failed(code: string, ms: number, epochMs: number): void {
    const slot = this.#settle(ms, epochMs)
    this.#ring.add(slot, columns.failed)
    if (code === 'upstream_timeout') this.#ring.add(slot, columns.timedOut)
    else if (code === 'upstream_unavailable') this.#ring.add(slot, columns.unreachable)
  }

  abandoned(): void {
    this.#waiting -= 1
  }

  read(range: SlotRange): UpstreamReading {
    return { ...this.#ring.read(range), waiting: this.#waiting, settledMs: this.#settledMs }
  }

  #settle(ms: number, epochMs: number): number {
    const slot = slotAt(epochMs)
    this.#waiting -= 1
    this.#settledMs = epochMs
    this.#ring.add(slot, columns.requests)
    this.#ring.add(slot, latencyColumn(ms))
    return slot
  }
}

export const isServerFailure = (status: number): boolean => status >= 500 && status !== 501

export type NamedRing = RingReading & Readonly<{ name: string }>

type UpstreamReading = RingReading &
  Readonly<{
    waiting: number
    settledMs: number
  }>

export type NamedUpstream = UpstreamReading & Readonly<{ name: string }>

export type TrafficReading = Readonly<{
  total: RingReading
  routes: readonly NamedRing[]
  upstreams: readonly NamedUpstream[]
  causes: readonly NamedRing[]
  drops: readonly NamedRing[]
}>

export function mergeTraffic(parts: readonly TrafficReading[]): TrafficReading {
  const upstreams = groupByName(parts.flatMap((part) => part.upstreams))
  return {
    total: mergeRings(parts.map(({ total }) => total)),
    routes: mergeNamed(parts.flatMap(({ routes }) => routes)),
    upstreams: [...upstreams].map(([name, readings]) => ({
      name,
      ...mergeRings(readings),
      waiting: readings.reduce((sum, { waiting }) => sum + waiting, 0),
      settledMs: Math.max(...readings.map(({ settledMs }) => settledMs)),
    })),
    causes: mergeNamed(parts.flatMap(({ causes }) => causes)),
    drops: mergeNamed(parts.flatMap(({ drops }) => drops)),
  }
}

const mergeNamed = (parts: readonly NamedRing[]): readonly NamedRing[] =>
  [...groupByName(parts)].map(([name, readings]) => ({ name, ...mergeRings(readings) }))

function groupByName<Part extends Readonly<{ name: string }>>(parts: readonly Part[]): ReadonlyMap<string, Part[]> {
  const groups = new Map<string, Part[]>()
  for (const part of parts) {
    const group = groups.get(part.name)
    if (group) group.push(part)
    else groups.set(part.name, [part])
  }
  return groups
}

function latencyColumn(ms: number): number {
  let index = 0
  while (index < latencyBounds.length && ms > (latencyBounds[index] as number)) index += 1
  return firstLatency + index
}

/** Milliseconds; undefined if nothing was measured. Interpolated within a bucket. */
export function readPercentile(counts: readonly number[], part: number): number | undefined {
  const buckets = counts.slice(firstLatency)
  const total = buckets.reduce((sum, count) => sum + count, 0)
  if (total === 0) return undefined
  const wanted = part * total
  let seen = 0
  for (const [index, count] of buckets.entries()) {
    if (count > 0 && seen + count >= wanted) {
      const low = latencyBounds[index - 1] ?? 0
      const high = latencyBounds[index] ?? low
      return low + (high - low) * ((wanted - seen) / count)
    }
    seen += count
  }
  return latencyBounds.at(-1)
}

function find<Value extends Readonly<{ lastSlot: number }>>(
  known: Map<string, Value>,
  name: string,
  limit: number,
  make: () => Value,
): Value {
  const found = known.get(name)
  if (found) return found
  if (known.size >= limit) known.delete(findQuietest(known))
  const made = make()
  known.set(name, made)
  return made
}

function findQuietest(known: ReadonlyMap<string, Readonly<{ lastSlot: number }>>): string {
  let quietest = ''
  let slot = Number.POSITIVE_INFINITY
  for (const [name, { lastSlot }] of known) {
    if (lastSlot >= slot) continue
    quietest = name
    slot = lastSlot
  }
  return quietest
}
