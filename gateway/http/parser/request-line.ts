const lineFeed = 10
const carriageReturn = 13
const space = 32

/** RFC 9112 2.2 asks for one empty line to be skipped before a request; a client that sends three is no client. */
const mostEmptyLines = 2

/**
 * A second look at the first line of each request, beside the parser's own. RFC 9112 3: three words, and one space between
 * them. llhttp takes several, as the RFC permits: what reads them in another way may stand before us or behind. Every byte
 * is looked at once and none is kept, whatever the line holds.
 */
export class RequestLine {
  /** False once a line was none: it stays the last one. */
  isValid = true
  #isAwaited = true
  #isOver = false
  #emptyLines = 0
  #endedInReturn = false
  #words = 0
  #isInWord = false

  /** Expects the next line. */
  next(): void {
    this.#isAwaited = true
    this.#isOver = false
    this.#emptyLines = 0
    this.#endedInReturn = false
    this.#words = 0
    this.#isInWord = false
  }

  /**
   * To be given the bytes of a request before the parser is; behind the line it looks at none. False where the parser need
   * not be asked: it skips empty lines without a word.
   */
  read(bytes: Uint8Array): boolean {
    if (this.#isOver || !this.isValid) return true
    const start = this.#isAwaited ? this.#skipEmptyLines(bytes) : 0
    if (this.#isAwaited) return this.isValid
    this.#readWords(bytes, start)
    return true
  }

  #skipEmptyLines(bytes: Uint8Array): number {
    for (let index = 0; index < bytes.length; index += 1) {
      const byte = bytes[index]
      if (byte !== carriageReturn && byte !== lineFeed) {
        this.#isAwaited = false
        return index
      }
      if (byte === carriageReturn || !this.#endedInReturn) this.#emptyLines += 1
      this.#endedInReturn = byte === carriageReturn
      if (this.#emptyLines > mostEmptyLines) {
        this.isValid = false
        return index
      }
    }
    return bytes.length
  }

  #readWords(bytes: Uint8Array, start: number): void {
    for (let index = start; index < bytes.length; index += 1) {
      const byte = bytes[index]
      if (byte === lineFeed) {
        this.#isOver = true
        this.isValid = this.#words === 3 && this.#isInWord
        return
      }
      if (byte !== space) {
        if (!this.#isInWord) this.#words += 1
        this.#isInWord = true
      } else if (this.#isInWord) {
        this.#isInWord = false
      } else {
        this.isValid = false
        return
      }
    }
  }
}
