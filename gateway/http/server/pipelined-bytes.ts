import { type MemoryAccount, pieceBytes } from '../exchange.ts'

/** Less than one read of a socket, since a head comes before. Later bytes wait in the system's buffers. */
const limitBytes = 12 * 1024

export class PipelinedBytes {
  readonly #account: MemoryAccount
  #chunks: Buffer[] = []
  #bytes = 0

  constructor(account: MemoryAccount) {
    this.#account = account
  }

  get isEmpty(): boolean {
    return this.#chunks.length === 0
  }

  get isFull(): boolean {
    return this.#bytes >= limitBytes || (this.#bytes > 0 && this.#account.isThrottled)
  }

  add(bytes: Buffer): void {
    // One chunk is usual, and `push` to an empty array allocates room for 17.
    if (this.#chunks.length === 0) this.#chunks = [bytes]
    else this.#chunks.push(bytes)
    this.#bytes += bytes.length + pieceBytes
    this.#account.hold(bytes.length + pieceBytes)
  }

  take(): Buffer {
    const [first, ...more] = this.#chunks
    const bytes = first && more.length === 0 ? first : Buffer.concat(this.#chunks)
    this.#account.release(this.#bytes)
    this.#chunks = []
    this.#bytes = 0
    return bytes
  }
}
