/** Smaller copies get memory of their own, since they are soon written as text. */
const smallBytes = 16 * 1024

/** Few copies exist at a time: most writes have left when the call returns. */
const mostWaiting = 32

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

/** Node reads at most 64 KiB at once from a socket. */
const largeBytes = 64 * 1024
const largeBuffers = new BufferPool(largeBytes)
const middleBuffers = new BufferPool(largeBytes / 2)

function findPool(bytes: number): BufferPool | undefined {
  if (bytes <= smallBytes || bytes > largeBytes) return undefined
  return bytes <= largeBytes / 2 ? middleBuffers : largeBuffers
}

/**
 * A copy of a borrowed buffer, kept until it is passed on. Large copies reuse pooled memory. V8 counts fresh buffers as
 * external memory, and collects the whole heap for every few dozen megabytes: twice a second under large bodies, while
 * requests wait.
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

  /**
   * Returns the memory to its pool. Called only after the last read of the bytes; a copy that is never recycled is
   * collected.
   */
  recycle(): void {
    if (this.#buffer) this.#pool?.recycle(this.#buffer)
    this.#buffer = undefined
  }
}
