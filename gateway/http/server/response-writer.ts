import type { ResponseWriter } from '../exchange.ts'
import { coalesceLimit } from '../socket/batched-writer.ts'
import type { ResponseFraming } from './response-head.ts'

export type ResponseConnection = Readonly<{
  /** Calls back when all bytes have left. Returns false when the client is slow or has left. */
  write: (bytes: string | Buffer, onWritten?: (error?: Error | null) => void) => boolean
  writeBorrowed: (bytes: Buffer) => boolean
  isCongested: () => boolean
}>

type Finishing = Readonly<{ finish: (last: string) => void }>

/**
 * A response in chunks. Small ones are written as text, which the connection joins: a small response is a single write.
 */
export class Http1ResponseWriter implements ResponseWriter {
  sentBytes = 0
  readonly #connection: ResponseConnection
  readonly #framing: ResponseFraming
  readonly #exchange: Finishing
  #isOver = false
  #onDrain: (() => void) | undefined

  constructor(connection: ResponseConnection, head: string, framing: ResponseFraming, exchange: Finishing) {
    this.#connection = connection
    this.#framing = framing
    this.#exchange = exchange
    connection.write(head)
  }

  write(bytes: Buffer): boolean {
    if (this.#isOver) return false
    if (bytes.length === 0 || this.#framing === 'head') return !this.#connection.isCongested()
    this.sentBytes += bytes.length
    const isSmall = bytes.length <= coalesceLimit
    if (this.#framing !== 'chunks')
      return isSmall ? this.#connection.write(bytes.toString('latin1')) : this.#connection.writeBorrowed(bytes)
    const size = `${bytes.length.toString(16)}\r\n`
    if (isSmall) return this.#connection.write(`${size}${bytes.toString('latin1')}\r\n`)
    this.#connection.write(size)
    this.#connection.writeBorrowed(bytes)
    return this.#connection.write('\r\n')
  }

  onDrain(listener: () => void): void {
    this.#onDrain = listener
  }

  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#exchange.finish(this.#framing === 'chunks' ? '0\r\n\r\n' : '')
  }

  goOn(): void {
    const listener = this.#onDrain
    if (!this.#isOver) listener?.()
  }

  abandon(): void {
    this.#isOver = true
    this.#onDrain = undefined
  }
}
