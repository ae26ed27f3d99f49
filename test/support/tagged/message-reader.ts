/** The length of a body, or the way in which it ends. */
export type Framing = number | 'chunked' | 'close'

type Handlers = Readonly<{
  /** Called with a whole head; says how the body behind it ends. */
  head: (head: string) => Framing
  body: (bytes: Buffer) => void
  end: () => void
}>

const none = Buffer.alloc(0)
const longestLine = 64 * 1024

/** Reads HTTP messages one behind the other, requests or responses. It is lean, so that a fuzz can send a million. */
export class MessageReader {
  readonly #handlers: Handlers
  #state: 'head' | 'body' | 'close' | 'size' | 'chunk' | 'chunk end' | 'trailer' = 'head'
  #line: Buffer = none
  #left = 0

  constructor(handlers: Handlers) {
    this.#handlers = handlers
  }

  /** Throws where the bytes are not HTTP. */
  push(bytes: Buffer): void {
    let rest = bytes
    while (rest.length > 0) rest = rest.subarray(this.#read(rest))
  }

  /** The peer will send no more. */
  close(): void {
    if (this.#state === 'close') this.#finish()
  }

  #finish(): void {
    this.#state = 'head'
    this.#handlers.end()
  }

  #read(bytes: Buffer): number {
    switch (this.#state) {
      case 'head':
        return this.#readLine(bytes, '\r\n\r\n', (head) => this.#begin(this.#handlers.head(head)))
      case 'body':
      case 'chunk':
        return this.#readContent(bytes)
      case 'close':
        this.#handlers.body(bytes)
        return bytes.length
      case 'size':
        return this.#readLine(bytes, '\r\n', (line) => this.#beginChunk(line))
      case 'chunk end':
        return this.#readLine(bytes, '\r\n', (line) => {
          if (line !== '') throw new Error('bytes behind a chunk')
          this.#state = 'size'
        })
      case 'trailer':
        return this.#readLine(bytes, '\r\n', (line) => {
          if (line === '') this.#finish()
        })
      default:
        return this.#state satisfies never
    }
  }

  #begin(framing: Framing): void {
    if (framing === 0) this.#finish()
    else if (framing === 'chunked') this.#state = 'size'
    else if (framing === 'close') this.#state = 'close'
    else {
      this.#state = 'body'
      this.#left = framing
    }
  }

  #beginChunk(line: string): void {
    if (!/^[0-9a-f]{1,8}$/i.test(line)) throw new Error('a chunk without a size')
    this.#left = Number.parseInt(line, 16)
    this.#state = this.#left === 0 ? 'trailer' : 'chunk'
  }

  #readContent(bytes: Buffer): number {
    const part = bytes.length > this.#left ? bytes.subarray(0, this.#left) : bytes
    this.#left -= part.length
    this.#handlers.body(part)
    if (this.#left > 0) return part.length
    if (this.#state === 'chunk') this.#state = 'chunk end'
    else this.#finish()
    return part.length
  }

  /** Reads up to and with this end, and returns the number of bytes that it took. */
  #readLine(bytes: Buffer, end: string, take: (line: string) => void): number {
    const before = this.#line.length
    const line = before === 0 ? bytes : Buffer.concat([this.#line, bytes])
    const at = line.indexOf(end)
    if (at < 0) {
      if (line.length > longestLine) throw new Error('a line without an end')
      this.#line = line
      return bytes.length
    }
    this.#line = none
    take(line.toString('latin1', 0, at))
    return at + end.length - before
  }
}

/** The value of a header in a head, undefined where it is absent. */
export function readHeader(head: string, name: string): string | undefined {
  const at = head.toLowerCase().indexOf(`\r\n${name}: `)
  if (at < 0) return undefined
  const from = at + name.length + 4
  const end = head.indexOf('\r\n', from)
  return head.slice(from, end < 0 ? undefined : end)
}

/** How a body ends by the headers, where the message may have one. */
export function readFraming(head: string, otherwise: Framing): Framing {
  if (readHeader(head, 'transfer-encoding') !== undefined) return 'chunked'
  const length = readHeader(head, 'content-length')
  return length === undefined ? otherwise : Number(length)
}
