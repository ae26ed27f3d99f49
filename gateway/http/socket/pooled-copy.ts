/** Up to this a copy has memory of its own: it is soon written as text. */
const smallBytes = 16 * 1024

/** So many wait for their next use: few are out at a time, since most of what is written has left when the call returns. */
const mostWaiting = 32

/** Pieces of memory of one size, the one that was used last to be used next. */
class BufferPool {
  readonly #bytes: number
  readonly #waiting: Buffer[] = []

  constructor(bytes: number) {
    this.#bytes = bytes
  }

  take(): Buffer {
    return this.#waiting.pop() ?? Buffer.allocUnsafeSlow(this.#bytes)
  }

  recycle(slab: Buffer): void {
    if (this.#waiting.length < mostWaiting) this.#waiting.push(slab)
  }
}

const largeBytes = 64 * 1024
const largeBuffers = new BufferPool(largeBytes)
const middleBuffers = new BufferPool(largeBytes / 2)

/** Up to a read of a socket; no slab is left more than half empty. */
function findPool(bytes: number): BufferPool | undefined {
  if (bytes <= smallBytes || bytes > largeBytes) return undefined
  return bytes <= largeBytes / 2 ? middleBuffers : largeBuffers
}

/**
 * Bytes that were lent, kept for longer: until they have been passed on. Large ones lie in memory that is used again. V8
 * counts what each copy would take of its own, and looks at the whole heap for every few dozen megabytes of it: some twice
 * in a second of large bodies, and every request waits for that.
 */
export class PooledCopy {
  readonly bytes: Buffer
  #buffer: Buffer | undefined
  readonly #pool: BufferPool | undefined

  constructor(bytes: Buffer) {
    this.#pool = findPool(bytes.length)
    this.#buffer = this.#pool?.take()
    if (!this.#buffer) {
      this.bytes = Buffer.from(bytes)
      return
    }
    bytes.copy(this.#buffer)
    this.bytes = this.#buffer.subarray(0, bytes.length)
  }

  /** To be called when nobody reads them any more, and never earlier. A copy that is never given back is the collector's. */
  recycle(): void {
    if (this.#buffer) this.#pool?.recycle(this.#buffer)
    this.#buffer = undefined
  }
}
