import { slotCount, slotMs } from './slot-ring.ts'

export type CallerKey = number | string

export type CallerReading = Readonly<{ caller: CallerKey; requests: number; refused: number; failed: number }>

/** A minute has enough requests to tell the callers with the most apart, and an hour takes 60 lists. */
const minuteMs = 60_000
const minutes = (slotCount * slotMs) / minuteMs

/** Space-Saving keeps each caller that sends more than a 64th of a minute's requests. */
const callerLimit = 64

// One screen of the page.
const readingLimit = 24

type Counts = { requests: number; refused: number; failed: number }

type Minute = { number: number; readonly callers: Map<CallerKey, Counts> }

/**
 * The callers with the most requests, by minute. Beyond the limit a new caller takes the place and the count of the
 * least (Space-Saving, Metwally 2005). So a heavy caller stays, however many others come once.
 */
export class Callers {
  readonly #minutes: readonly Minute[] = Array.from({ length: minutes }, () => ({ number: -1, callers: new Map() }))

  count(epochMs: number, caller: CallerKey, isRefused: boolean, isFailed: boolean): void {
    const minute = this.#open(Math.floor(epochMs / minuteMs))
    if (!minute) return
    const counts = findCounts(minute.callers, caller)
    counts.requests += 1
    if (isRefused) counts.refused += 1
    if (isFailed) counts.failed += 1
  }

  read(fromMs: number, toMs: number): readonly CallerReading[] {
    const [first, last] = [Math.floor(fromMs / minuteMs), Math.floor(toMs / minuteMs)]
    const wanted = this.#minutes.filter(({ number }) => number >= first && number <= last)
    return mergeCallers([
      wanted.flatMap(({ callers }) => [...callers].map(([caller, counts]) => ({ caller, ...counts }))),
    ])
  }

  #open(number: number): Minute | undefined {
    const minute = this.#minutes[number % minutes]
    if (minute && minute.number !== number) {
      minute.number = number
      minute.callers.clear()
    }
    return minute
  }
}

function findCounts(callers: Map<CallerKey, Counts>, caller: CallerKey): Counts {
  const known = callers.get(caller)
  if (known) return known
  let requests = 0
  if (callers.size >= callerLimit) {
    const least = findLeast(callers)
    requests = callers.get(least)?.requests ?? 0
    callers.delete(least)
  }
  const counts = { requests, refused: 0, failed: 0 }
  callers.set(caller, counts)
  return counts
}

function findLeast(callers: ReadonlyMap<CallerKey, Counts>): CallerKey {
  let least: CallerKey = ''
  let fewest = Number.POSITIVE_INFINITY
  for (const [caller, { requests }] of callers) {
    if (requests >= fewest) continue
    least = caller
    fewest = requests
  }
  return least
}

export function mergeCallers(parts: readonly (readonly CallerReading[])[]): readonly CallerReading[] {
  const sums = new Map<CallerKey, Counts>()
  for (const { caller, requests, refused, failed } of parts.flat()) {
    const sum = sums.get(caller) ?? { requests: 0, refused: 0, failed: 0 }
    sum.requests += requests
    sum.refused += refused
    sum.failed += failed
    sums.set(caller, sum)
  }
  const all = [...sums].map(([caller, counts]) => ({ caller, ...counts }))
  const most = (field: keyof Counts) => [...all].sort((one, other) => other[field] - one[field]).slice(0, readingLimit)
  return [...new Set([...most('requests'), ...most('refused'), ...most('failed')])]
}
