import { type MemoryAccount, pieceBytes } from '../exchange.ts'
import { PooledCopy } from './pooled-copy.ts'

/** Ordered copies of borrowed buffers, counted on an account until they are passed on. */
export class HeldChunks {
  readonly #account: MemoryAccount
  readonly #limitBytes: number
  #chunks: PooledCopy[] = []
  bytes = 0

  constructor(account: MemoryAccount, limitBytes: number) {
    this.#account = account
    this.#limitBytes = limitBytes
  }

  get isEmpty(): boolean {
    return this.#chunks.length === 0
  }

  get isFull(): boolean {
    return this.#heldBytes > this.#limitBytes || (this.bytes > 0 && this.#account.isThrottled)
  }

  get #heldBytes(): number {
    return this.bytes + this.#chunks.length * pieceBytes
  }

  push(lent: Buffer): void {
    this.#chunks.push(new PooledCopy(lent))
    this.bytes += lent.length
    this.#account.hold(lent.length + pieceBytes)
  }

  shift(): PooledCopy {
    const chunk = this.#chunks.shift()
    if (!chunk) throw new Error('nothing is held')
    this.bytes -= chunk.bytes.length
    this.#account.release(chunk.bytes.length + pieceBytes)
    return chunk
  }

  takeAll(): Buffer {
    const chunks = this.#chunks.map(({ bytes }) => bytes)
    const [first, ...more] = chunks
    this.clear()
    return first && more.length === 0 ? first : Buffer.concat(chunks)
  }

  clear(): void {
    this.#account.release(this.#heldBytes)
    this.#chunks = []
    this.bytes = 0
  }
}
