import type { Socket } from 'node:net'

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

const heldUp: Reading[] = []
let readBytes = 0
let partBytes = leastBytes
let startedMs = 0
let isPlanned = false

/**
 * Whether a socket is read from. Not while what it says has nowhere to go; and while many say much, each in its turn:
 * libuv alone would read two mebibytes of every one of them before it looks at a request of a few bytes.
 */
export class Reading {
  readonly #socket: Socket
  #isWanted = true
  #isHeldUp = false

  constructor(socket: Socket) {
    this.#socket = socket
  }

  pause(): void {
    this.#isWanted = false
    if (!this.#socket.isPaused()) this.#socket.pause()
  }

  resume(): void {
    this.#isWanted = true
    if (!this.#isHeldUp && this.#socket.isPaused()) this.#socket.resume()
  }

  /** Counts a chunk that was read, when all is done with it. */
  count(bytes: number): void {
    if (bytes < largeChunkBytes) return
    readBytes += bytes
    plan()
    // What is not wanted may be somebody else's socket by now.
    if (readBytes < partBytes || this.#isHeldUp || !this.#isWanted) return
    this.#isHeldUp = true
    if (!this.#socket.isPaused()) this.#socket.pause()
    heldUp.push(this)
  }

  goOn(): void {
    this.#isHeldUp = false
    if (this.#isWanted) this.resume()
  }
}

function plan(): void {
  if (isPlanned) return
  isPlanned = true
  startedMs = performance.now()
  setImmediate(nextTurn)
}

function nextTurn(): void {
  isPlanned = false
  const othersMs = performance.now() - startedMs - readBytes / bytesPerMs
  partBytes = Math.min(mostBytes, Math.max(leastBytes, othersMs * bytesPerMs))
  readBytes = 0
  const readings = heldUp.splice(0, Math.ceil(partBytes / chunkBytes))
  if (heldUp.length > 0) plan()
  for (const reading of readings) reading.goOn()
}
