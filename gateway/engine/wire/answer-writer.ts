import type { ResponseWriter } from '../exchange.ts'
import type { AnswerFraming } from './answer-head.ts'

/** Where an answer goes: the connection of its client. */
export type AnswerWire = Readonly<{
  /** Calls back when all of it has left; false when the client is slow, or gone. */
  write: (bytes: string | Buffer, onLeft?: (error?: Error | null) => void) => boolean
  /** The same of several, in one write. */
  writeAll: (parts: readonly (string | Buffer)[]) => boolean
  isCongested: () => boolean
}>

/** Up to so much is joined to one string, which node writes without a copy of its own. */
const joinedBytes = 16 * 1024

/**
 * An answer in pieces. What is written within one tick goes out in one write, with its head where that is new: a small
 * answer is a single one. Not by `cork`, of which a later end would have to be sure.
 */
export class AnswerWriter implements ResponseWriter {
  readonly #wire: AnswerWire
  readonly #framing: AnswerFraming
  readonly #onEnd: (last: string) => void
  #text: string
  #isFlushing = false
  #isOver = false
  #onDrain: (() => void) | undefined

  /** `onEnd` is given what is still to be written. */
  constructor(wire: AnswerWire, head: string, framing: AnswerFraming, onEnd: (last: string) => void) {
    this.#wire = wire
    this.#framing = framing
    this.#onEnd = onEnd
    this.#text = head
    this.#flushSoon()
  }

  readonly write = (bytes: Buffer): boolean => {
    if (this.#isOver) return false
    if (bytes.length === 0 || this.#framing === 'head') return !this.#wire.isCongested()
    if (this.#text.length + bytes.length > joinedBytes) return this.#writeLarge(bytes)
    const content = bytes.toString('latin1')
    this.#text += this.#framing === 'chunks' ? `${bytes.length.toString(16)}\r\n${content}\r\n` : content
    this.#flushSoon()
    return !this.#wire.isCongested()
  }

  readonly onDrain = (listener: () => void): void => {
    this.#onDrain = listener
  }

  readonly end = (): void => {
    if (this.#isOver) return
    this.#isOver = true
    const text = this.#framing === 'chunks' ? `${this.#text}0\r\n\r\n` : this.#text
    this.#text = ''
    this.#onEnd(text)
  }

  /** The client reads again. */
  goOn(): void {
    const listener = this.#onDrain
    if (!this.#isOver) listener?.()
  }

  /** The client has gone. */
  abandon(): void {
    this.#isOver = true
    this.#text = ''
    this.#onDrain = undefined
  }

  #writeLarge(bytes: Buffer): boolean {
    const text = this.#text
    this.#text = ''
    if (this.#framing === 'chunks')
      return this.#wire.writeAll([`${text}${bytes.length.toString(16)}\r\n`, bytes, '\r\n'])
    return text === '' ? this.#wire.write(bytes) : this.#wire.writeAll([text, bytes])
  }

  #flushSoon(): void {
    if (this.#isFlushing) return
    this.#isFlushing = true
    process.nextTick(flush, this)
  }

  /** To be called at the tick's end. */
  flush(): void {
    this.#isFlushing = false
    if (this.#text === '' || this.#isOver) return
    const text = this.#text
    this.#text = ''
    this.#wire.write(text)
  }
}

const flush = (writer: AnswerWriter): void => writer.flush()
