import { performance } from 'node:perf_hooks'
import { guarded } from '../fault/guarded.ts'
import { TimeSlicer } from './time-slicer.ts'

/**
 * Deadlines within so many milliseconds share one timer of Node. Long ones share a coarser one: thousands of streams
 * would otherwise have a timer and a bucket each.
 */
const granularityMs = 8
const coarseMs = 128
const longMs = 4_000

/** Times are whole milliseconds, which need no object of their own. */
const unset = 0
const isDue = -1

/** Thousands may be due at once, and each cuts or answers a connection. */
const due = new TimeSlicer<Deadline>(
  (deadline) => deadline.fire(),
  (deadline) => deadline.fail(),
)

type Owner = Readonly<{ destroy: () => void }>

type Bucket = { readonly dueMs: number; first: Deadline | undefined; last: Deadline | undefined }

const buckets = new Map<number, Bucket>()

/** A deadline of a connection, which moves with each request. Moving it costs a number instead of a timer. */
export class Deadline {
  #dueMs = unset
  #onDue: ((target: never) => void) | undefined
  #target: unknown
  readonly #owner: Owner | undefined
  #bucket: Bucket | undefined
  #next: Deadline | undefined
  #previous: Deadline | undefined

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
    const nowMs = performance.now()
    this.#dueMs = Math.ceil(nowMs + delayMs)
    this.#enter(nowMs)
  }

  stop(): void {
    this.#clear()
  }

  #clear(): void {
    this.#dueMs = unset
    this.#onDue = undefined
    this.#target = undefined
  }

  get isSet(): boolean {
    return this.#onDue !== undefined
  }

  discard(): void {
    this.#clear()
    this.#leave()
  }

  #enter(nowMs: number): void {
    const stepMs = this.#dueMs - nowMs < longMs ? granularityMs : coarseMs
    const dueMs = Math.ceil(this.#dueMs / stepMs) * stepMs
    if (this.#bucket && this.#bucket.dueMs <= dueMs) return
    this.#leave()
    const bucket = buckets.get(dueMs) ?? openBucket(dueMs, nowMs)
    this.#bucket = bucket
    this.#previous = bucket.last
    if (bucket.last) bucket.last.#next = this
    else bucket.first = this
    bucket.last = this
  }

  #leave(): void {
    const bucket = this.#bucket
    if (!bucket) return
    if (this.#previous) this.#previous.#next = this.#next
    else bucket.first = this.#next
    if (this.#next) this.#next.#previous = this.#previous
    else bucket.last = this.#previous
    this.#bucket = undefined
    this.#next = undefined
    this.#previous = undefined
  }

  check(nowMs: number): void {
    this.#leave()
    if (!this.#onDue) return
    if (this.#dueMs > nowMs) {
      this.#enter(nowMs)
      return
    }
    this.#dueMs = isDue
    due.add(this)
  }

  fire(): void {
    if (this.#dueMs !== isDue) return
    const onDue = this.#onDue
    const target = this.#target as never
    this.#clear()
    onDue?.(target)
  }

  fail(): void {
    this.#owner?.destroy()
  }
}

function openBucket(dueMs: number, nowMs: number): Bucket {
  const bucket: Bucket = { dueMs, first: undefined, last: undefined }
  buckets.set(dueMs, bucket)
  setTimeout(emptyGuarded, Math.ceil(dueMs - nowMs), bucket).unref()
  return bucket
}

const emptyGuarded = guarded('timer', empty)

function empty(bucket: Bucket): void {
  buckets.delete(bucket.dueMs)
  // Timers of Node may fire a fraction of a millisecond early.
  const nowMs = Math.max(performance.now(), bucket.dueMs)
  // Each leaves first: one that is cut may take others along.
  while (bucket.first) bucket.first.check(nowMs)
}
