// Bytes to messages: llhttp reads, and the files beside it refuse or mend what it takes too generously.
import { ChunkReader } from './chunk-reader.ts'
import { ParseLimits } from './limits.ts'
import {
  closeParser,
  inputBytes,
  isChunked,
  nameError,
  openParser,
  parse,
  parseEnd,
  pause,
  readLength,
  readMethod,
  readPosition,
  readVersion,
  resetParser,
} from './llhttp.ts'
import { HeadMender } from './mend-head.ts'
import { type ParseFault, targetOverflow } from './parse-error.ts'
import { RequestLine } from './request-line.ts'

export type MessageHead = Readonly<{
  method: string
  firstLine: string
  status: number
  version: string
  headers: string[]
  /** Whether chunks follow, as the parser decided and reads. */
  isChunked: boolean
  /** The Content-Length that the parser read. */
  length: number | undefined
  isUpgrade: boolean
  isKeptAlive: boolean
}>

/** A body in more pieces is copied into one: each piece costs far more than a byte. */
const pieceLimit = 8

/** Below it a loop costs less than the call of `copy`. */
const smallPieceBytes = 16

/**
 * Bytes of a read that become one string, of which the header values are slices. A string for each value costs far
 * more. Few heads are longer, and a body behind them should not become a string.
 */
const windowBytes = 4 * 1024

/** A message keeps so much more text at most, which costs less than the search for the end of its head. */
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
  /** The begin and end of each piece of the body, in the bytes of this read. */
  #pieces: number[] = []
  #body = noPieces
  isComplete = false
  consumedBytes = 0
  isInHead = false
  /** A response to HEAD has no body, whatever length it states. */
  hasNoBody = false
  readonly #parser: number
  readonly #requestLine: RequestLine | undefined
  readonly #mender: HeadMender | undefined
  /** Reads an answer's chunks behind its head. */
  #chunks: ChunkReader | undefined
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
    this.#mender = type === 'response' ? new HeadMender() : undefined
    this.#limits = new ParseLimits(headLimitBytes)
  }

  get headBytes(): number {
    return this.#limits.headBytes
  }

  /** The bytes of an answer without the blanks that a proxy removes. They are what `execute` reads and counts. */
  mend(bytes: Buffer): Buffer {
    return this.#mender?.mend(bytes) ?? bytes
  }

  execute(bytes: Buffer): ParseFault | undefined {
    this.#body = noPieces
    this.consumedBytes = 0
    let fault: ParseFault | undefined
    for (let start = 0; start < bytes.length && !this.isComplete && !fault && !this.#isFreed; start += inputBytes)
      fault = this.#executePiece(bytes.length <= inputBytes ? bytes : bytes.subarray(start, start + inputBytes))
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
    const code = this.#isFreed || this.#chunks ? undefined : parseEnd(this.#parser, this)
    return code === 0 || code === pause
  }

  next(): void {
    if (!this.#isFreed) resetParser(this.#parser)
    this.#requestLine?.next()
    this.#mender?.next()
    this.#chunks = undefined
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
    if (this.#chunks) return this.#readChunks(this.#chunks, bytes, 0)
    if (this.#requestLine?.read(bytes) === false)
      return { code: 'HPE_INVALID_CONSTANT', rawPacket: bytes, bytesParsed: 0 }
    this.#bytes = bytes
    this.#limits.beginBytes()
    const code = parse(this.#parser, bytes, this)
    if (this.#pieces.length > 0) this.#takePieces(bytes)
    this.#bytes = nothing
    this.#window = undefined
    const isWhole = code === 0
    const end = isWhole ? bytes.length : readPosition(this.#parser)
    this.consumedBytes += end
    if (this.#chunks) return this.#readChunks(this.#chunks, bytes, end)
    if ((isWhole || this.isComplete) && this.#limits.endBytes(end, this.isInHead)) return undefined
    this.isComplete = false
    return { code: this.#nameFault(code), rawPacket: bytes, bytesParsed: end }
  }

  #readChunks(chunks: ChunkReader, bytes: Buffer, start: number): ParseFault | undefined {
    const end = chunks.read(bytes, start, this.#pieces)
    if (this.#pieces.length > 0) this.#takePieces(bytes)
    this.consumedBytes += end - start
    this.isComplete = chunks.isComplete
    return chunks.fault && { code: chunks.fault, rawPacket: bytes, bytesParsed: end }
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
    const length = readLength(this.#parser)
    const method = status === 0 ? readMethod(this.#parser) : ''
    const version = readVersion(this.#parser)
    // RFC 9112 6.3: a client that reads leading zeros as octal would read another length.
    if (status !== 0 && length !== undefined) stateLength(headers, String(length))
    const framing = { isChunked: isChunked(this.#parser), length }
    this.#head = { method, firstLine: this.#firstLine, status, version, headers, ...framing, isUpgrade, isKeptAlive }
    this.#headers = noHeaders
    // RFC 9110 15.2: an interim response ends with its head, whatever length it states. After a 101 the bytes are no
    // longer HTTP.
    const isInterim = status >= 100 && status < 200 && status !== 101
    if (this.hasNoBody || isInterim) return 1
    // llhttp reads neither blanks around a size nor every trailer, and ends with the head for 204 and 304.
    if (!framing.isChunked || status < 200 || status === 204 || status === 304) return 0
    this.#chunks = new ChunkReader()
    return 1
  }

  onBody(start: number, end: number): number {
    if (!this.#limits.countBody(start, end)) return -1
    this.#pieces.push(start, end)
    return 0
  }

  #takePieces(bytes: Buffer): void {
    const pieces = this.#pieces
    this.#pieces = []
    const body = pieces.length > pieceLimit * 2 ? [joinPieces(bytes, pieces)] : cutPieces(bytes, pieces)
    this.#body = this.#body.length === 0 ? body : [...this.#body, ...body]
  }

  onComplete(): number {
    this.isComplete = this.#chunks === undefined
    return pause
  }
}

function cutPieces(bytes: Buffer, pieces: readonly number[]): Buffer[] {
  const cut: Buffer[] = []
  for (let index = 0; index < pieces.length; index += 2) cut.push(bytes.subarray(pieces[index], pieces[index + 1]))
  return cut
}

function joinPieces(bytes: Buffer, pieces: readonly number[]): Buffer {
  const joined = Buffer.allocUnsafe(bytes.length)
  let length = 0
  for (let index = 0; index < pieces.length; index += 2) {
    const start = pieces[index] ?? 0
    const end = pieces[index + 1] ?? 0
    // To call `copy` for a piece of a few bytes costs more than to copy them.
    if (end - start > smallPieceBytes) length += bytes.copy(joined, length, start, end)
    else for (let at = start; at < end; at += 1) joined[length++] = bytes[at] ?? 0
  }
  return joined.subarray(0, length)
}

function stateLength(headers: string[], length: string): void {
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] ?? ''
    if (name.length === 14 && name.toLowerCase() === 'content-length') headers[index + 1] = length
  }
}

/** A pattern would be quadratic in runs of spaces. */
function withoutSpacesBehind(value: string): string {
  let end = value.length
  while (end > 0 && (value.charCodeAt(end - 1) === 32 || value.charCodeAt(end - 1) === 9)) end -= 1
  return end === value.length ? value : value.slice(0, end)
}

/** Several times the names in use, so that few share a slot; with names of 32 bytes it holds 16 KiB at most. */
const nameSlotCount = 512

/** `access-control-allow-credentials` has as many; longer ones are rare. */
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
