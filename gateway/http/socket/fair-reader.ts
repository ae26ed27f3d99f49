import type { Socket } from 'node:net'
import { guarded } from '../../fault/guarded.ts'
import { HandleGate, type ReadGate, SharedReadGate } from './read-gate.ts'

/**
 * Bytes of large bodies that all sockets together read in one turn of the event loop. It is more where the rest of the
 * turn took long, between these bounds.
 */
const leastBytes = 1024 * 1024
const mostBytes = 2 * 1024 * 1024
const bytesPerMs = 512 * 1024

/** About the most that a socket reads at once. A quarter of it counts as large. */
const chunkBytes = 64 * 1024
const largeChunkBytes = chunkBytes / 4

const throttled: FairReader[] = []
let readBytes = 0
let turnBudgetBytes = leastBytes
let startedMs = 0
let isPlanned = false

/**
 * Pauses a socket whose bytes have no receiver, or whose turn has not come. libuv alone would read two mebibytes of
 * each large body before it serves a small request.
 */
export class FairReader {
  readonly #gate: ReadGate
  #isWanted = true
  #isThrottled = false

  constructor(socket: Socket, isShared: boolean) {
    this.#gate = isShared ? new SharedReadGate(socket) : new HandleGate(socket)
  }

  pause(): void {
    this.#isWanted = false
    this.#gate.close()
  }

  resume(): void {
    this.#isWanted = true
    if (!this.#isThrottled) this.#gate.open()
  }

  detach(): void {
    this.#isWanted = false
    this.#gate.detach()
  }

  /** Counts a read after it was processed. With `isPart`, a small read is part of a large body. */
  count(bytes: number, isPart = false): void {
    if (bytes < largeChunkBytes && !isPart) return
    readBytes += bytes
    plan()
    if (readBytes < turnBudgetBytes || this.#isThrottled || !this.#isWanted) return
    this.#isThrottled = true
    this.#gate.close()
    throttled.push(this)
  }

  goOn(): void {
    this.#isThrottled = false
    if (this.#isWanted) this.resume()
  }
}

function plan(): void {
  if (isPlanned) return
  isPlanned = true
  startedMs = performance.now()
  setImmediate(nextTurnGuarded)
}

function nextTurn(): void {
  isPlanned = false
  const othersMs = performance.now() - startedMs - readBytes / bytesPerMs
  turnBudgetBytes = Math.min(mostBytes, Math.max(leastBytes, othersMs * bytesPerMs))
  readBytes = 0
  const readers = throttled.splice(0, Math.ceil(turnBudgetBytes / chunkBytes))
  if (throttled.length > 0) plan()
  for (const reader of readers) goOn(reader)
}

const nextTurnGuarded = guarded('timer', nextTurn)

const goOn = guarded('timer', (reader: FairReader) => reader.goOn())
