/** Up to this a copy has memory of its own: it is soon written as text. */
const smallBytes = 16 * 1024

/** So many wait for their next use: few are out at a time, since most of what is written has left when the call returns. */
const mostWaiting = 32

/** Pieces of memory of one size, the one that was used last to be used next. */
class Slabs {
  readonly #bytes: number
  readonly #waiting: Buffer[] = []

  constructor(bytes: number) {
    this.#bytes = bytes
  }

  take(): Buffer {
    return this.#waiting.pop() ?? Buffer.allocUnsafeSlow(this.#bytes)
  }

  giveBack(slab: Buffer): void {
    if (this.#waiting.length < mostWaiting) this.#waiting.push(slab)
  }
}

const largeBytes = 64 * 1024
const largeSlabs = new Slabs(largeBytes)
const middleSlabs = new Slabs(largeBytes / 2)

/** Up to a read of a socket; no slab is left more than half empty. */
function findSlabs(bytes: number): Slabs | undefined {
  if (bytes <= smallBytes || bytes > largeBytes) return undefined
  return bytes <= largeBytes / 2 ? middleSlabs : largeSlabs
}

/**
 * Bytes that were lent, kept for longer: until they have been passed on. Large ones lie in memory that is used again. V8
 * counts what each copy would take of its own, and looks at the whole heap for every few dozen megabytes of it: some twice
 * in a second of large bodies, and every request waits for that.
 */
export class PooledCopy {
  readonly bytes: Buffer
  #slab: Buffer | undefined
  readonly #slabs: Slabs | undefined

  constructor(bytes: Buffer) {
    this.#slabs = findSlabs(bytes.length)
    this.#slab = this.#slabs?.take()
    if (!this.#slab) {
      this.bytes = Buffer.from(bytes)
      return
    }
    bytes.copy(this.#slab)
    this.bytes = this.#slab.subarray(0, bytes.length)
  }

  /** To be called when nobody reads them any more, and never earlier. A copy that is never given back is the collector's. */
  giveBack(): void {
    if (this.#slab) this.#slabs?.giveBack(this.#slab)
    this.#slab = undefined
  }
}
