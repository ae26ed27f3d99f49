import { guarded } from '../../base/fault/guarded.ts'
import type { ReadSize } from './shared-reads.ts'

/**
 * A client's network, or the id of its organization. Equal for all requests of both, so that a debt is owed after the
 * connection that made it has closed, or serves another.
 */
export type Owner = string | number

export type Waiter = Readonly<{ goOn: () => void }>

/**
 * Time of large reads in one turn of the event loop, of all sockets together. It is more where the rest of the turn
 * took long, between these bounds: reads then take about half of the processor.
 */
const leastMs = 2
const mostMs = 4

/** Time of large reads of one owner in one turn. A request of another owner waits for a few turns, so it is short. */
const sliceMs = 0.5

/**
 * Time that an owner may owe to later turns. A single read may take longer than a slice. But if V8 collects garbage
 * within a read, its owner must not be kept out for long.
 */
const mostOwedMs = 25

/** Bytes cost at least this time, since the system's part of a read and of its later write is not measured. */
const bytesPerMs = 512 * 1024

/** A read of this size is part of a large body. */
const largeBytes = 16 * 1024

/** A small read that took as long as a large one counts like one. */
const longMs = 0.25

/** One read should take no longer: nothing else happens in the meantime. */
const readMs = 0.5

const sizes: Readonly<Record<ReadSize, number>> = { sparing: 4 * 1024, small: 16 * 1024, large: 64 * 1024 }

export function largestAffordable(wanted: ReadSize, msPerByte: number): ReadSize {
  if (sizes[wanted] * msPerByte <= readMs) return wanted
  return wanted === 'large' && sizes.small * msPerByte <= readMs ? 'small' : 'sparing'
}

/**
 * Shares the processor among sockets with large bodies, by the time that their reads were measured to take. Bytes of
 * blank lines in an event stream take fifty times as long as bytes of text. Owners that wait go on in rotation, however
 * many sockets each has.
 */
class ReadTurns {
  /** Time of this turn and time still owed, by owner. */
  readonly #spentMs = new Map<Owner, number>()
  readonly #waiting = new Map<Owner, Set<Waiter>>()
  #limitMs = leastMs
  #totalMs = 0
  #startedMs = 0
  #isPlanned = false
  heldReads = 0

  /** Whether the owner may go on in this turn. */
  charge(owner: Owner, bytes: number, tookMs: number, isPart: boolean): boolean {
    if (bytes < largeBytes && !isPart && tookMs < longMs) return true
    const costMs = Math.max(tookMs, bytes / bytesPerMs)
    const spentMs = (this.#spentMs.get(owner) ?? 0) + costMs
    this.#spentMs.set(owner, spentMs)
    this.#totalMs += costMs
    this.#plan()
    return spentMs < sliceMs && this.#totalMs < this.#limitMs
  }

  wait(owner: Owner, waiter: Waiter): void {
    this.heldReads += 1
    const waiting = this.#waiting.get(owner)
    if (waiting) waiting.add(waiter)
    else this.#waiting.set(owner, new Set([waiter]))
  }

  leave(owner: Owner, waiter: Waiter): void {
    const waiting = this.#waiting.get(owner)
    waiting?.delete(waiter)
    if (waiting?.size === 0) this.#waiting.delete(owner)
  }

  #plan(): void {
    if (this.#isPlanned) return
    this.#isPlanned = true
    this.#startedMs = performance.now()
    setImmediate(nextTurn)
  }

  next(): void {
    this.#isPlanned = false
    const othersMs = performance.now() - this.#startedMs - this.#totalMs
    this.#limitMs = Math.min(mostMs, Math.max(leastMs, othersMs))
    this.#totalMs = 0
    for (const [owner, spentMs] of this.#spentMs) {
      const owedMs = Math.min(spentMs - sliceMs, mostOwedMs)
      if (owedMs > 0) this.#spentMs.set(owner, owedMs)
      else this.#spentMs.delete(owner)
    }
    const chosen = this.#choose()
    if (this.#spentMs.size > 0 || this.#waiting.size > 0) this.#plan()
    for (const waiter of chosen) goOn(waiter)
  }

  /** The sockets whose turn it is, one of each owner. Each may read as much as a slice before it is held. */
  #choose(): Waiter[] {
    const most = Math.ceil(this.#limitMs / sliceMs)
    const owners: Owner[] = []
    for (const owner of this.#waiting.keys()) {
      if (!this.#spentMs.has(owner)) owners.push(owner)
      if (owners.length === most) break
    }
    return owners.flatMap((owner) => {
      const waiting = this.#waiting.get(owner) ?? new Set()
      const [waiter] = waiting
      if (waiter) waiting.delete(waiter)
      // Behind the others.
      this.#waiting.delete(owner)
      if (waiting.size > 0) this.#waiting.set(owner, waiting)
      return waiter ?? []
    })
  }
}

/** There is one event loop in a process, so there is one of these. */
export const readTurns = new ReadTurns()

const nextTurn = guarded('timer', () => readTurns.next())

const goOn = guarded('timer', (waiter: Waiter) => waiter.goOn())
