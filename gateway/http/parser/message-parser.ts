import { ParseLimits } from './limits.ts'
import {
  closeParser,
  inputBytes,
  nameError,
  openParser,
  parse,
  parseEnd,
  pause,
  readMethod,
  readPosition,
  readVersion,
  resetParser,
} from './llhttp.ts'
import { type ParseFault, targetOverflow } from './parse-error.ts'
import { RequestLine } from './request-line.ts'

export type MessageHead = Readonly<{
  method: string
  firstLine: string
  status: number
  version: string
  headers: string[]
  isUpgrade: boolean
  isKeptAlive: boolean
}>

/** A body in more pieces is copied into one: each piece costs far more than a byte. */
const pieceLimit = 8

/**
 * Bytes of a read that become one string, of which the header values are slices. A string for each value costs far
 * more. Few heads are longer, and a body behind them should not become a string.
 */
const windowBytes = 4 * 1024

const shortBytes = 1024

/** With a target of this length, the target is blamed for a head that is too large. */
const longTarget = 8 * 1024

const nothing: Buffer = Buffer.alloc(0)

const noPieces: Buffer[] = []
Object.freeze(noPieces)

const noHeaders: string[] = []
Object.freeze(noHeaders)

/**
 * Reads one message after the other, strictly, and stops at the end of each. Results are fields, read after `execute`
 * has returned: no callback can call back into a parser that is at work.
 */
export class MessageParser {
  #body = noPieces
  isComplete = false
  consumedBytes = 0
  isInHead = false
  /** A response to HEAD has no body, whatever length it states. */
  hasNoBody = false
  readonly #parser: number
  readonly #requestLine: RequestLine | undefined
  #head: MessageHead | undefined
  readonly #limits: ParseLimits
  #isFreed = false
  #bytes: Buffer = nothing
  #window: string | undefined
  #firstLine = ''
  #headers = noHeaders
  #open: 'name' | 'value' | undefined

  constructor(type: 'request' | 'response', headLimitBytes: number) {
    this.#parser = openParser(type)
    this.#requestLine = type === 'request' ? new RequestLine() : undefined
    this.#limits = new ParseLimits(headLimitBytes)
  }

  get headBytes(): number {
    return this.#limits.headBytes
  }

  execute(bytes: Buffer): ParseFault | undefined {
    this.#body = noPieces
    this.consumedBytes = 0
    let fault: ParseFault | undefined
    for (let start = 0; start < bytes.length && !this.isComplete && !fault && !this.#isFreed; start += inputBytes)
      fault = this.#executePiece(bytes.length <= inputBytes ? bytes : bytes.subarray(start, start + inputBytes))
    if (this.#body.length > pieceLimit) this.#body = [Buffer.concat(this.#body)]
    return fault
  }

  /** Returns a complete head once, and lets go of it: its message may last for hours. */
  takeHead(): MessageHead | undefined {
    const head = this.#head
    this.#head = undefined
    return head
  }

  takeBody(): readonly Buffer[] {
    const body = this.#body
    this.#body = noPieces
    return body
  }

  finish(): boolean {
    const code = this.#isFreed ? undefined : parseEnd(this.#parser, this)
    return code === 0 || code === pause
  }

  next(): void {
    if (!this.#isFreed) resetParser(this.#parser)
    this.#requestLine?.next()
    this.#head = undefined
    this.#limits.endHead()
    this.isComplete = false
    this.hasNoBody = false
  }

  /** Frees the memory, which another parser may get at once. Nothing is read after this. */
  free(): void {
    if (!this.#isFreed) closeParser(this.#parser)
    this.#isFreed = true
  }

  #executePiece(bytes: Buffer): ParseFault | undefined {
    if (this.#requestLine?.read(bytes) === false)
      return { code: 'HPE_INVALID_CONSTANT', rawPacket: bytes, bytesParsed: 0 }
    this.#bytes = bytes
    this.#limits.beginBytes()
    const code = parse(this.#parser, bytes, this)
    this.#bytes = nothing
    this.#window = undefined
    const isWhole = code === 0
    const end = isWhole ? bytes.length : readPosition(this.#parser)
    this.consumedBytes += end
    if ((isWhole || this.isComplete) && this.#limits.endBytes(end, this.isInHead)) return undefined
    this.isComplete = false
    return { code: this.#nameFault(code), rawPacket: bytes, bytesParsed: end }
  }

  #nameFault(code: number): string {
    if (this.#limits.isHeadTooLarge) return this.#firstLine.length > longTarget ? targetOverflow : 'HPE_HEADER_OVERFLOW'
    if (this.#requestLine?.isValid === false) return 'HPE_INVALID_CONSTANT'
    return this.#limits.isFramingTooLarge ? 'HPE_CHUNK_EXTENSIONS_OVERFLOW' : nameError(code)
  }

  onBegin(): number {
    this.isInHead = true
    this.#firstLine = ''
    this.#headers = []
    this.#open = undefined
    this.#limits.beginHead()
    return 0
  }

  onFirstLine(start: number, end: number): number {
    // A copy, since records of a stream keep it: a slice would keep the whole read.
    this.#firstLine += this.#bytes.toString('latin1', start, end)
    return this.#limits.countHead(start, end) ? 0 : -1
  }

  onName(start: number, end: number): number {
    // A trailer is dropped (RFC 9110 6.5.1).
    if (!this.isInHead) return 0
    if (this.#requestLine?.isValid === false) return -1
    const name = readHeaderName(this.#bytes, start, end)
    if (this.#open === 'name') this.#headers[this.#headers.length - 1] += name
    else this.#headers.push(name)
    this.#open = 'name'
    return this.#limits.countHead(start, end) ? 0 : -1
  }

  onValue(start: number, end: number): number {
    if (!this.isInHead) return 0
    const value = this.#text(start, end)
    if (this.#open === 'value') this.#headers[this.#headers.length - 1] += value
    else this.#headers.push(value)
    this.#open = 'value'
    return this.#limits.countHead(start, end) ? 0 : -1
  }

  #text(start: number, end: number): string {
    if (end > windowBytes) return this.#bytes.toString('latin1', start, end)
    this.#window ??= this.#openWindow(start)
    return end <= this.#window.length ? this.#window.slice(start, end) : this.#bytes.toString('latin1', start, end)
  }

  /** Slices keep this text for as long as the message lasts, so pipelined bytes are left out. */
  #openWindow(start: number): string {
    const isShort = this.#bytes.length <= shortBytes
    const end = isShort ? -1 : this.#bytes.indexOf('\r\n\r\n', start, 'latin1')
    return this.#bytes.toString('latin1', 0, end < 0 ? windowBytes : Math.min(end, windowBytes))
  }

  onHead(status: number, isUpgrade: boolean, isKeptAlive: boolean): number {
    if (this.#requestLine?.isValid === false) return -1
    this.isInHead = false
    this.#limits.endHead()
    const headers = this.#headers
    for (let index = 1; index < headers.length; index += 2) headers[index] = withoutSpacesBehind(headers[index] ?? '')
    const method = status === 0 ? readMethod(this.#parser) : ''
    const version = readVersion(this.#parser)
    this.#head = { method, firstLine: this.#firstLine, status, version, headers, isUpgrade, isKeptAlive }
    this.#headers = noHeaders
    // RFC 9110 15.2: an interim response ends with its head, whatever length it states. After a 101 the bytes are no
    // longer HTTP.
    const isInterim = status >= 100 && status < 200 && status !== 101
    return this.hasNoBody || isInterim ? 1 : 0
  }

  onBody(start: number, end: number): number {
    if (!this.#limits.countBody(start, end)) return -1
    const piece = this.#bytes.subarray(start, end)
    if (this.#body.length === 0) this.#body = [piece]
    else this.#body.push(piece)
    return 0
  }

  onComplete(): number {
    this.isComplete = true
    return pause
  }
}

/** A pattern would be quadratic in runs of spaces. */
function withoutSpacesBehind(value: string): string {
  let end = value.length
  while (end > 0 && (value.charCodeAt(end - 1) === 32 || value.charCodeAt(end - 1) === 9)) end -= 1
  return end === value.length ? value : value.slice(0, end)
}

const nameSlotCount = 512

const longestSharedName = 32

const nameSlots: (string | undefined)[] = Array.from({ length: nameSlotCount }, () => undefined)

export function readHeaderName(bytes: Buffer, start: number, end: number): string {
  const length = end - start
  if (length > longestSharedName) return bytes.toString('latin1', start, end)
  const middle = bytes[start + (length >> 1)] ?? 0
  const slot = (length * 61 + (bytes[start] ?? 0) * 7 + middle * 29 + (bytes[end - 1] ?? 0) * 13) % nameSlotCount
  const known = nameSlots[slot]
  if (known !== undefined && known.length === length && standsAt(known, bytes, start)) return known
  const name = bytes.toString('latin1', start, end)
  nameSlots[slot] = name
  return name
}

function standsAt(name: string, bytes: Buffer, start: number): boolean {
  for (let index = 0; index < name.length; index += 1) if (name.charCodeAt(index) !== bytes[start + index]) return false
  return true
}
