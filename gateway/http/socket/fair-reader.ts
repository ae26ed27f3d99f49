import type { Socket } from 'node:net'
import { guarded } from '../../fault/guarded.ts'
import { HandleGate, type ReadGate, SharedReadGate } from './read-gate.ts'

/**
 * What is read of large bodies in one turn of the event loop, all sockets together: so much at least, more where the rest
 * of the turn took long, and so much at most.
 */
const leastBytes = 1024 * 1024
const mostBytes = 2 * 1024 * 1024
const bytesPerMs = 512 * 1024

/** About the most that a socket gives at once; what gives a fourth of it counts as large. */
const chunkBytes = 64 * 1024
const largeChunkBytes = chunkBytes / 4

const throttled: FairReader[] = []
let readBytes = 0
let turnBudgetBytes = leastBytes
let startedMs = 0
let isPlanned = false

/**
 * Whether a socket is read from. Not while what it says has nowhere to go; and while many say much, each in its turn:
 * libuv alone would read two mebibytes of every one of them before it looks at a request of a few bytes.
 */
export class FairReader {
  readonly #gate: ReadGate
  #isWanted = true
  #isThrottled = false

  /** `isShared`: the socket's bytes go to a buffer that all share. */
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

  /** Leaves the socket paused, to be read from by others. */
  detach(): void {
    this.#isWanted = false
    this.#gate.detach()
  }

  /** Counts a chunk that was read, when all is done with it; a small one where many small reads stand for a large one. */
  count(bytes: number, isPart = false): void {
    if (bytes < largeChunkBytes && !isPart) return
    readBytes += bytes
    plan()
    // What is not wanted may be somebody else's socket by now.
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
