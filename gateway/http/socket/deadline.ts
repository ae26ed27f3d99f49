import { performance } from 'node:perf_hooks'
import { guarded } from '../../fault/guarded.ts'
import { TimeSlicer } from '../../lib/time-slicer.ts'

/** Deadlines within so many milliseconds share one timer of Node. */
const granularityMs = 8

const now = Number.NEGATIVE_INFINITY

/** Thousands may be due at once, and each cuts or answers a connection. */
const due = new TimeSlicer<Deadline>(
  (deadline) => deadline.fire(),
  (deadline) => deadline.fail(),
)

type Bucket = Set<Deadline>

type Owner = Readonly<{ destroy: () => void }>

const buckets = new Map<number, Bucket>()

/** A deadline of a connection, which moves with each request. Moving it costs a number instead of a timer. */
export class Deadline {
  #dueMs = Number.POSITIVE_INFINITY
  #onDue: ((target: never) => void) | undefined
  #target: unknown
  readonly #owner: Owner | undefined
  #key = Number.POSITIVE_INFINITY

  constructor(owner?: Owner) {
    this.#owner = owner
  }

  /**
   * Calls back after that time, unless the deadline is set again or stopped. The target spares each connection a
   * closure.
   */
  set<Target>(delayMs: number, target: Target, onDue: (target: Target) => void): void {
    this.#target = target
    this.#onDue = onDue
    this.#dueMs = performance.now() + delayMs
    const key = Math.ceil(this.#dueMs / granularityMs)
    if (key < this.#key) this.#enter(key)
  }

  stop(): void {
    this.#dueMs = Number.POSITIVE_INFINITY
    this.#onDue = undefined
    this.#target = undefined
  }

  get isSet(): boolean {
    return this.#onDue !== undefined
  }

  discard(): void {
    this.stop()
    buckets.get(this.#key)?.delete(this)
    this.#key = Number.POSITIVE_INFINITY
  }

  #enter(key: number): void {
    buckets.get(this.#key)?.delete(this)
    this.#key = key
    const bucket = buckets.get(key)
    if (bucket) bucket.add(this)
    else {
      buckets.set(key, new Set([this]))
      setTimeout(emptyGuarded, Math.ceil(key * granularityMs - performance.now()), key).unref()
    }
  }

  check(nowMs: number): void {
    this.#key = Number.POSITIVE_INFINITY
    if (!this.#onDue) return
    if (this.#dueMs > nowMs) {
      this.#enter(Math.ceil(this.#dueMs / granularityMs))
      return
    }
    this.#dueMs = now
    due.add(this)
  }

  fire(): void {
    if (this.#dueMs !== now) return
    const onDue = this.#onDue
    const target = this.#target as never
    this.stop()
    onDue?.(target)
  }

  fail(): void {
    this.#owner?.destroy()
  }
}

const emptyGuarded = guarded('timer', empty)

function empty(key: number): void {
  const bucket = buckets.get(key)
  buckets.delete(key)
  // Timers of Node may fire a fraction of a millisecond early.
  const nowMs = Math.max(performance.now(), key * granularityMs)
  for (const deadline of bucket ?? []) deadline.check(nowMs)
}
