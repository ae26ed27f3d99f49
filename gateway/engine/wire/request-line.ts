/**
 * RFC 9112 3: three words, and one space between them. llhttp takes several, as the RFC permits: what reads them in another
 * way may stand before us or behind.
 */
const pattern = /^[\r\n]*[^ \n]+ [^ \n]+ [^ \n]+\n/

/** A second look at the first line of each request, beside the parser's own. */
export class RequestLine {
  /** False once a line was none: it stays the last one. */
  isSound = true
  /** What came of it with earlier bytes; undefined between two lines. */
  #text: string | undefined

  get isOpen(): boolean {
    return this.#text !== undefined
  }

  begin(): void {
    this.#text = ''
  }

  /** Takes bytes that hold a piece of the line, unless it is over. */
  goOn(bytes: Buffer): void {
    if (this.#text !== undefined) this.#text += bytes.toString('latin1')
  }

  /** Takes the last piece, with whatever follows; gives whether the line is sound. */
  end(text: string): boolean {
    this.isSound = pattern.test(this.#text + text)
    this.#text = undefined
    return this.isSound
  }
}
