import { framingLimitBytes } from './chunk-reader.ts'

// V8 joins strings by an object of four words of 64 bits.
const ropeBytes = 32

/** Counts the bytes of a message besides its body. Positions are offsets into the current read. */
export class ParseLimits {
  isHeadTooLarge = false
  readonly #headLimitBytes: number
  #headBytes = 0
  #packetBytes = 0
  #headReads = 0
  #framingBytes = 0
  #contentEnd = 0

  constructor(headLimitBytes: number) {
    this.#headLimitBytes = headLimitBytes
  }

  get headBytes(): number {
    return Math.max(this.#headBytes, this.#packetBytes) + this.#headReads * ropeBytes
  }

  get isFramingTooLarge(): boolean {
    return this.#framingBytes > framingLimitBytes
  }

  beginBytes(): void {
    this.#contentEnd = 0
  }

  /** Counts bytes that no callback reports, such as the spaces before a value. False beyond a limit. */
  endBytes(end: number, isInHead: boolean): boolean {
    if (isInHead) {
      this.#packetBytes += end
      this.#headReads += 1
      this.isHeadTooLarge ||= this.#packetBytes > 2 * this.#headLimitBytes
    } else {
      this.#framingBytes += end - this.#contentEnd
    }
    return !this.isHeadTooLarge && !this.isFramingTooLarge
  }

  beginHead(): void {
    this.#headBytes = 0
    this.#packetBytes = 0
    this.#headReads = 0
  }

  /** Counts as node:http does: target, names and values. False beyond the limit. */
  countHead(start: number, end: number): boolean {
    this.#contentEnd = end
    this.#headBytes += end - start
    this.isHeadTooLarge = this.#headBytes >= this.#headLimitBytes
    return !this.isHeadTooLarge
  }

  countBody(start: number, end: number): boolean {
    this.#framingBytes += start - this.#contentEnd
    if (this.isFramingTooLarge) return false
    this.#framingBytes = 0
    this.#contentEnd = end
    return true
  }

  endHead(): void {
    this.#framingBytes = 0
  }
}
