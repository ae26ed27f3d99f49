import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { guarded } from '../../base/fault/guarded.ts'
import { EndOfTickBatch } from '../../base/lib/end-of-tick-batch.ts'
import { Holding, type MemoryAccount, mostPieces, pieceBytes } from '../exchange.ts'
import { PooledCopy } from './pooled-copy.ts'

/** Text up to this size is joined into one write, which Node does without a copy. */
export const coalesceLimit = 16 * 1024

const nothing = Buffer.alloc(0)

const waiting = new EndOfTickBatch<BatchedWriter>(
  (writer) => writer.flush(),
  (writer) => writer.cut(),
)

/**
 * Joins the text that one connection writes in a turn of the event loop. It is written at the end of the turn, with
 * that of other connections.
 */
export class BatchedWriter {
  hasWritten = false
  readonly #socket: Socket
  /** TLS buffers bytes twice: as plain text and encrypted. */
  readonly #copies: 1 | 2
  #account: MemoryAccount
  readonly #waiting: Holding
  #isAwaited = false
  #pieces = 0
  #text = ''
  #onWritten: ((error?: Error | null) => void) | undefined
  #isWaiting = false

  constructor(socket: Socket, account: MemoryAccount) {
    this.#socket = socket
    this.#copies = socket instanceof TLSSocket ? 2 : 1
    this.#account = account
    this.#waiting = new Holding(account)
  }

  charge(account: MemoryAccount): void {
    this.#account = account
    this.#waiting.moveTo(account)
  }

  count(): void {
    const { destroyed, writableLength } = this.#socket
    const isWaiting = !destroyed && writableLength > 0
    this.#waiting.set(isWaiting ? writableLength * this.#copies + this.#pieces * pieceBytes : 0)
  }

  /**
   * Writes bytes, or latin1 text. Calls back when they have left, and returns false while the peer takes no more. Large
   * bytes are not joined, but written at once after the waiting text.
   */
  write(bytes: string | Buffer, onWritten?: (error?: Error | null) => void): boolean {
    if (typeof bytes === 'string') {
      this.#hold(bytes, onWritten)
      if (this.#account.isThrottled) this.flush()
    } else if (this.#text === '') this.#send(bytes, onWritten)
    else {
      this.#socket.cork()
      this.flush()
      this.#send(bytes, onWritten)
      this.#socket.uncork()
    }
    const isCongested = this.isCongested()
    if (isCongested || this.#waiting.bytes > 0) this.count()
    return !isCongested
  }

  writeBorrowed(bytes: Buffer): boolean {
    const copy = new PooledCopy(bytes)
    return this.write(copy.bytes, () => copy.recycle())
  }

  /** Whether the peer takes no more; `drain` follows. Node counts bytes that have just left as buffered. */
  isCongested(): boolean {
    if (this.#socket.writableLength === 0) return false
    if (this.#socket.writableNeedDrain) return true
    if (this.#pieces < mostPieces && !this.#account.isThrottled) return false
    this.#awaitRoom()
    return true
  }

  /** Emits `drain` once all has left. Node does so only for more than its high-water mark. */
  #awaitRoom(): void {
    if (this.#isAwaited) return
    this.#isAwaited = true
    const tell = (): void => {
      this.#isAwaited = false
      this.#socket.emit('drain')
    }
    this.#socket.write(
      nothing,
      guarded('client', tell, () => this.cut()),
    )
  }

  /**
   * Writes the waiting text without its last byte, before the socket is broken: a partial response then cannot pass for
   * a whole one.
   */
  flushTruncated(): void {
    this.#text = this.#text.slice(0, -1)
    this.#onWritten = undefined
    this.flush()
  }

  flush(): void {
    if (!this.#isWaiting) return
    this.#isWaiting = false
    const text = this.#text
    const onWritten = this.#onWritten
    this.#text = ''
    this.#onWritten = undefined
    this.#send(text, onWritten)
  }

  cut(): void {
    this.#socket.destroy()
  }

  #hold(text: string, onWritten: ((error?: Error | null) => void) | undefined): void {
    if (this.#onWritten || this.#text.length + text.length > coalesceLimit) this.flush()
    this.#text += text
    this.#onWritten = onWritten
    if (this.#isWaiting) return
    this.#isWaiting = true
    waiting.add(this)
  }

  #send(bytes: string | Buffer, onWritten: ((error?: Error | null) => void) | undefined): void {
    const socket = this.#socket
    if (!socket.writable) return
    this.hasWritten = true
    this.#pieces = socket.writableLength === 0 ? 1 : this.#pieces + 1
    if (typeof bytes === 'string') socket.write(bytes, 'latin1', onWritten)
    else socket.write(bytes, onWritten)
  }
}
