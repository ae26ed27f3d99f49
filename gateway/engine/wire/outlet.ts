import type { Socket } from 'node:net'
import { TurnBatch } from '../../turn/turn-batch.ts'
import { LentCopy } from './lent-copy.ts'

/** Text up to this is joined, and leaves in one write, which node does without a copy of its own. */
export const joinedBytes = 16 * 1024

const waiting = new TurnBatch<Outlet>((outlet) => outlet.flush())

/** What one connection says. Text waits for the end of its turn of the event loop, and leaves with that of others. */
export class Outlet {
  /** Whether anything has left since this was last set to false. */
  hasLeft = false
  readonly #socket: Socket
  #text = ''
  #onLeft: ((error?: Error | null) => void) | undefined
  #isWaiting = false

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /**
   * Writes bytes, or text that stands for bytes. Calls back when they have left; gives false where the other side takes
   * no more for now. Bytes leave at once, behind the text that waits: they are too large to be joined.
   */
  write(bytes: string | Buffer, onLeft?: (error?: Error | null) => void): boolean {
    if (typeof bytes === 'string') this.#hold(bytes, onLeft)
    else if (this.#text === '') this.#send(bytes, onLeft)
    else {
      this.#socket.cork()
      this.flush()
      this.#send(bytes, onLeft)
      this.#socket.uncork()
    }
    return !this.isCongested()
  }

  /** Writes bytes that are another's as soon as this returns. */
  lend(bytes: Buffer): boolean {
    const copy = new LentCopy(bytes)
    return this.write(copy.bytes, () => copy.giveBack())
  }

  /** True while the other side takes nothing: `drain` will say when it does. Node counts what has just left as waiting. */
  isCongested(): boolean {
    return this.#socket.writableNeedDrain && this.#socket.writableLength > 0
  }

  /** Writes what waits but for its last byte: to be called before a socket is broken. No answer then passes for whole. */
  breakOff(): void {
    this.#text = this.#text.slice(0, -1)
    this.#onLeft = undefined
    this.flush()
  }

  /** Writes what waits: to be called before a socket is ended, or given away. */
  flush(): void {
    if (!this.#isWaiting) return
    this.#isWaiting = false
    const text = this.#text
    const onLeft = this.#onLeft
    this.#text = ''
    this.#onLeft = undefined
    this.#send(text, onLeft)
  }

  #hold(text: string, onLeft: ((error?: Error | null) => void) | undefined): void {
    if (this.#onLeft || this.#text.length + text.length > joinedBytes) this.flush()
    this.#text += text
    this.#onLeft = onLeft
    if (this.#isWaiting) return
    this.#isWaiting = true
    waiting.add(this)
  }

  #send(bytes: string | Buffer, onLeft: ((error?: Error | null) => void) | undefined): void {
    const socket = this.#socket
    if (!socket.writable) return
    this.hasLeft = true
    if (typeof bytes === 'string') socket.write(bytes, 'latin1', onLeft)
    else socket.write(bytes, onLeft)
  }
}
