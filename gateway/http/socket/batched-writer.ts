import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { guarded } from '../../fault/guarded.ts'
import { EndOfTickBatch } from '../../lib/end-of-tick-batch.ts'
import { Holding, type MemoryAccount } from '../exchange.ts'
import { PooledCopy } from './pooled-copy.ts'

/** Text up to this is joined, and leaves in one write, which node does without a copy of its own. */
export const coalesceLimit = 16 * 1024

const nothing = Buffer.alloc(0)

const waiting = new EndOfTickBatch<BatchedWriter>(
  (writer) => writer.flush(),
  (writer) => writer.cut(),
)

/** What one connection says. Text waits for the end of its turn of the event loop, and leaves with that of others. */
export class BatchedWriter {
  /** Whether anything has left since this was last set to false. */
  hasWritten = false
  readonly #socket: Socket
  /** On TLS what waits is there twice: as it is, and encrypted. */
  readonly #copies: 1 | 2
  #account: MemoryAccount
  readonly #waiting: Holding
  #isAwaited = false
  #text = ''
  #onWritten: ((error?: Error | null) => void) | undefined
  #isWaiting = false

  constructor(socket: Socket, account: MemoryAccount) {
    this.#socket = socket
    this.#copies = socket instanceof TLSSocket ? 2 : 1
    this.#account = account
    this.#waiting = new Holding(account)
  }

  /** From now on what waits here waits for another. */
  charge(account: MemoryAccount): void {
    this.#account = account
    this.#waiting.moveTo(account)
  }

  /** Counts what waits now. What waits while the other side takes more is seen by a look now and then. */
  count(): void {
    this.#waiting.set(this.#socket.destroyed ? 0 : this.#socket.writableLength * this.#copies)
  }

  /**
   * Writes bytes, or text that stands for bytes. Calls back when they have left; gives false where the other side takes
   * no more for now. Bytes leave at once, behind the text that waits: they are too large to be joined.
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

  /** Writes bytes that are another's as soon as this returns. */
  writeBorrowed(bytes: Buffer): boolean {
    const copy = new PooledCopy(bytes)
    return this.write(copy.bytes, () => copy.recycle())
  }

  /** True while the other side takes nothing: `drain` will say when it does. Node counts what has just left as waiting. */
  isCongested(): boolean {
    if (this.#socket.writableLength === 0) return false
    if (this.#socket.writableNeedDrain) return true
    if (!this.#account.isThrottled) return false
    this.#awaitRoom()
    return true
  }

  /** Tells of room once all has left, however little that is: Node does so only of what is more than its mark. */
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

  /** Writes what waits but for its last byte: to be called before a socket is broken. No answer then passes for whole. */
  flushTruncated(): void {
    this.#text = this.#text.slice(0, -1)
    this.#onWritten = undefined
    this.flush()
  }

  /** Writes what waits: to be called before a socket is ended, or given away. */
  flush(): void {
    if (!this.#isWaiting) return
    this.#isWaiting = false
    const text = this.#text
    const onWritten = this.#onWritten
    this.#text = ''
    this.#onWritten = undefined
    this.#send(text, onWritten)
  }

  /** Closes the socket, whatever waits. */
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
    if (typeof bytes === 'string') socket.write(bytes, 'latin1', onWritten)
    else socket.write(bytes, onWritten)
  }
}
