import { performance } from 'node:perf_hooks'
import { guarded } from '../../fault/guarded.ts'
import { TimeSlicer } from '../../lib/time-slicer.ts'

/** Deadlines that are due within the same so many milliseconds share one timer of Node. */
const granularityMs = 8

/** In the place of a time: due, and about to fire. */
const now = Number.NEGATIVE_INFINITY

/** A thousand that came together are due together: each cuts a connection, or answers on it. */
const due = new TimeSlicer<Deadline>(
  (deadline) => deadline.fire(),
  (deadline) => deadline.fail(),
)

type Bucket = Set<Deadline>

/** What a deadline belongs to. */
type Owner = Readonly<{ destroy: () => void }>

const buckets = new Map<number, Bucket>()

/** One deadline of a connection, which moves with every request: moving it costs a number, not a timer. */
export class Deadline {
  #dueMs = Number.POSITIVE_INFINITY
  #onDue: ((target: never) => void) | undefined
  #target: unknown
  readonly #owner: Owner | undefined
  /** The bucket that will check this deadline, at its time or before. */
  #key = Number.POSITIVE_INFINITY

  /** The owner is destroyed should a callback throw. */
  constructor(owner?: Owner) {
    this.#owner = owner
  }

  /**
   * Calls back with the target after so long, unless the deadline is set anew or stopped. With a target of its own each
   * connection needs no closure of its own.
   */
  set<Target>(delayMs: number, target: Target, onDue: (target: Target) => void): void {
    this.#target = target
    this.#onDue = onDue
    this.#dueMs = performance.now() + delayMs
    const key = Math.ceil(this.#dueMs / granularityMs)
    if (key < this.#key) this.#enter(key)
  }

  /** Leaves the deadline where it is, for the next time that it is set. */
  stop(): void {
    this.#dueMs = Number.POSITIVE_INFINITY
    this.#onDue = undefined
    this.#target = undefined
  }

  get isSet(): boolean {
    return this.#onDue !== undefined
  }

  /** Forgets the deadline for good: what it belongs to may be gone long before its bucket is checked. */
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
    // Others that were due may have set it anew, or stopped it.
    if (this.#dueMs !== now) return
    const onDue = this.#onDue
    const target = this.#target as never // it was set with the callback
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
  // Node's timers may come a part of a millisecond early.
  const nowMs = Math.max(performance.now(), key * granularityMs)
  for (const deadline of bucket ?? []) deadline.check(nowMs)
}
