/** Limit for the bytes between body pieces: sizes, extensions and trailers, which the gateway ignores. */
export const framingLimitBytes = 16 * 1024

type State =
  | 'before-size'
  | 'size'
  | 'behind-size'
  | 'extension'
  | 'quoted'
  | 'escaped'
  | 'size-end'
  | 'data'
  | 'data-cr'
  | 'data-end'
  | 'line'
  | 'name'
  | 'behind-name'
  | 'value'
  | 'line-end'
  | 'last-end'
  | 'complete'

const tab = 0x09
const lineFeed = 0x0a
const carriageReturn = 0x0d
const space = 0x20
const quote = 0x22
const colon = 0x3a
const semicolon = 0x3b
const backslash = 0x5c

const isBlank = (byte: number): boolean => byte === space || byte === tab

/** RFC 9110 5.5: neither a control character nor a line's end. A reader that ends a line there has another reading. */
const isText = (byte: number): boolean => (byte >= space && byte !== 0x7f) || byte === tab

const valueOfHex = Array.from({ length: 256 }, (_, byte) => {
  const sign = String.fromCharCode(byte)
  return /^[0-9a-f]$/i.test(sign) ? Number.parseInt(sign, 16) : -1
})

/** RFC 9110 5.6.2. */
const isTokenByte = Array.from({ length: 256 }, (_, byte) =>
  /[!#$%&'*+\-.^_`|~0-9a-z]/i.test(String.fromCharCode(byte)),
)

/** A size up to here has room for one more digit. */
const largestSize = Number.MAX_SAFE_INTEGER / 16 - 1

/**
 * Takes the chunks of an answer apart (RFC 9112 7.1). llhttp refuses some that a proxy has to mend: blanks around a size
 * and in an extension, and fields that may not stand in a trailer. Those are dropped with their trailer.
 */
export class ChunkReader {
  fault:
    | 'HPE_INVALID_CHUNK_SIZE'
    | 'HPE_STRICT'
    | 'HPE_INVALID_HEADER_TOKEN'
    | 'HPE_CHUNK_EXTENSIONS_OVERFLOW'
    | undefined
  #state: State = 'before-size'
  #size = 0
  #framingBytes = 0

  get isComplete(): boolean {
    return this.#state === 'complete'
  }

  /** Reads from an offset to the end of the message or of the bytes, adds pieces of the body, and returns its place. */
  read(bytes: Buffer, start: number, pieces: number[]): number {
    let at = start
    while (at < bytes.length && this.#state !== 'complete') {
      if (this.#state === 'data') {
        const end = Math.min(at + this.#size, bytes.length)
        pieces.push(at, end)
        this.#size -= end - at
        this.#framingBytes = 0
        at = end
        if (this.#size === 0) this.#state = 'data-cr'
        continue
      }
      this.#framingBytes += 1
      if (this.#framingBytes > framingLimitBytes) this.fault = 'HPE_CHUNK_EXTENSIONS_OVERFLOW'
      else this.#step(bytes[at] ?? 0)
      if (this.fault) return at
      at += 1
    }
    return at
  }

  #step(byte: number): void {
    switch (this.#state) {
      case 'before-size':
      case 'size':
      case 'behind-size':
        this.#readSize(byte)
        return
      case 'extension':
      case 'quoted':
      case 'escaped':
        this.#readExtension(byte)
        return
      case 'line':
      case 'name':
      case 'behind-name':
      case 'value':
        this.#readTrailer(byte)
        return
      case 'data-cr':
        if (byte === carriageReturn) this.#state = 'data-end'
        else this.fault = 'HPE_STRICT'
        return
      default:
        this.#endLine(byte)
    }
  }

  #endLine(byte: number): void {
    if (byte !== lineFeed) this.fault = 'HPE_STRICT'
    else if (this.#state === 'size-end') this.#state = this.#size === 0 ? 'line' : 'data'
    else if (this.#state === 'data-end') this.#state = 'before-size'
    else this.#state = this.#state === 'last-end' ? 'complete' : 'line'
  }

  #readSize(byte: number): void {
    const digit = this.#state === 'behind-size' ? -1 : (valueOfHex[byte] ?? -1)
    if (digit >= 0) {
      this.#size = this.#state === 'size' ? this.#size * 16 + digit : digit
      this.#state = 'size'
      if (this.#size > largestSize) this.fault = 'HPE_INVALID_CHUNK_SIZE'
    } else if (isBlank(byte)) {
      if (this.#state === 'size') this.#state = 'behind-size'
    } else if (this.#state === 'before-size') this.fault = 'HPE_INVALID_CHUNK_SIZE'
    else if (byte === carriageReturn) this.#state = 'size-end'
    else if (byte === semicolon) this.#state = 'extension'
    else this.fault = 'HPE_INVALID_CHUNK_SIZE'
  }

  /** An extension ends with its line. An open quote could hide the end from another reader. */
  #readExtension(byte: number): void {
    if (byte === carriageReturn && this.#state === 'extension') this.#state = 'size-end'
    else if (!isText(byte)) this.fault = 'HPE_STRICT'
    else if (this.#state === 'escaped') this.#state = 'quoted'
    else if (byte === quote) this.#state = this.#state === 'quoted' ? 'extension' : 'quoted'
    else if (byte === backslash && this.#state === 'quoted') this.#state = 'escaped'
  }

  /** A folded line of blanks could pass for the blank line that ends the message, so none is read. */
  #readTrailer(byte: number): void {
    const isToken = isTokenByte[byte] === true
    if (this.#state === 'value') {
      if (byte === carriageReturn) this.#state = 'line-end'
      else if (!isText(byte)) this.fault = 'HPE_INVALID_HEADER_TOKEN'
    } else if (this.#state === 'line') {
      if (byte === carriageReturn) this.#state = 'last-end'
      else if (isToken) this.#state = 'name'
      else this.fault = 'HPE_INVALID_HEADER_TOKEN'
    } else if (byte === colon) this.#state = 'value'
    else if (isBlank(byte)) this.#state = 'behind-name'
    else if (!isToken || this.#state === 'behind-name') this.fault = 'HPE_INVALID_HEADER_TOKEN'
  }
}
