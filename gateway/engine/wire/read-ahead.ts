/** About one read of a socket. What comes later waits in the system's buffers. */
const limitBytes = 64 * 1024

/** What a client has sent before its turn. */
export class ReadAhead {
  #chunks: Buffer[] = []
  #bytes = 0

  get isEmpty(): boolean {
    return this.#chunks.length === 0
  }

  /** Nothing more should be read for now. */
  get isFull(): boolean {
    return this.#bytes > limitBytes
  }

  add(bytes: Buffer): void {
    this.#chunks.push(bytes)
    this.#bytes += bytes.length
  }

  /** Gives it all, and forgets it. */
  take(): Buffer {
    const [first, ...more] = this.#chunks
    const bytes = first && more.length === 0 ? first : Buffer.concat(this.#chunks)
    this.#chunks = []
    this.#bytes = 0
    return bytes
  }
}
