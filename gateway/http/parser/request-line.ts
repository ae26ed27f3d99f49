const lineFeed = 10
const carriageReturn = 13
const space = 32

/** RFC 9112 2.2 asks servers to skip one empty line before a request. A third one is an attack. */
const mostEmptyLines = 2

/**
 * Checks each request line beside the parser. RFC 9112 3 asks for three words with one space between them, and permits
 * more spaces, which llhttp takes: a proxy or backend may read them otherwise. Each byte is checked once and none is
 * kept.
 */
export class RequestLine {
  isValid = true
  #isAwaited = true
  #isOver = false
  #emptyLines = 0
  #endedInReturn = false
  #words = 0
  #isInWord = false

  next(): void {
    this.#isAwaited = true
    this.#isOver = false
    this.#emptyLines = 0
    this.#endedInReturn = false
    this.#words = 0
    this.#isInWord = false
  }

  /** False while there are only empty lines, which the parser would skip in silence. */
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
