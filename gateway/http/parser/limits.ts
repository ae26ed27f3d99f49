/** What may stand between two pieces of a body: extensions of chunks, and trailers, which say nothing to us. */
const framingLimitBytes = 16 * 1024

/** Counts what a message has beside its body. Places are offsets into the bytes that are read at the moment. */
export class ParseLimits {
  /** Whether a head has more than it may have. */
  isHeadTooLarge = false
  readonly #headLimitBytes: number
  #headBytes = 0
  #packetBytes = 0
  #framingBytes = 0
  /** Up to where callbacks have told of these bytes. */
  #contentEnd = 0

  constructor(headLimitBytes: number) {
    this.#headLimitBytes = headLimitBytes
  }

  /** Of the last head, as far as it has come. */
  get headBytes(): number {
    return Math.max(this.#headBytes, this.#packetBytes)
  }

  get isFramingTooLarge(): boolean {
    return this.#framingBytes > framingLimitBytes
  }

  beginBytes(): void {
    this.#contentEnd = 0
  }

  /** Of bytes that no callback tells of, such as the spaces before a value; false where a limit is passed. */
  endBytes(end: number, isInHead: boolean): boolean {
    if (isInHead) {
      this.#packetBytes += end
      this.isHeadTooLarge ||= this.#packetBytes > 2 * this.#headLimitBytes
    } else {
      this.#framingBytes += end - this.#contentEnd
    }
    return !this.isHeadTooLarge && !this.isFramingTooLarge
  }

  beginHead(): void {
    this.#headBytes = 0
    this.#packetBytes = 0
  }

  /** As node:http counts: the target, the names and the values. False where they are too much. */
  countHead(start: number, end: number): boolean {
    this.#contentEnd = end
    this.#headBytes += end - start
    this.isHeadTooLarge = this.#headBytes >= this.#headLimitBytes
    return !this.isHeadTooLarge
  }

  /** What lies before and behind it is framing; false where that is too much. */
  countBody(start: number, end: number): boolean {
    this.#framingBytes += start - this.#contentEnd
    if (this.isFramingTooLarge) return false
    this.#framingBytes = 0
    this.#contentEnd = end
    return true
  }

  /** The framing of a body begins. */
  endHead(): void {
    this.#framingBytes = 0
  }
}
