import type { StreamKind, StreamRules } from '../../base/errors/surface.ts'
import type { ToldError } from '../../base/errors/told-error.ts'
import { ChatChoices } from './chat-choices.ts'
import type { FindLineEnd } from './line-ends.ts'
import { type EventFields, readFields } from './read-fields.ts'
import { isOneOf, readScalar, scanMembers } from './scan-json.ts'
import { mayTellError, mostErrorBytes, readToldError } from './told-error.ts'
import { isWholeObject } from './whole-json.ts'

export type BlockKind = 'no-event' | 'event' | 'terminal-event'

/** SPEC section 6. They count in chat streams too, because a worker may itself stand behind such a gateway. */
const terminalTypes = ['response.completed', 'response.failed', 'response.incomplete']

/** Official SDKs stop at data that starts like this, not only at data that equals it. */
const done = Buffer.from('[DONE]')

const nothing = Buffer.alloc(0)

const doneEvent = Buffer.from('data: [DONE]\n\n')

const byteOrderMark = Buffer.from('\ufeff')

/** CR LF, the longest blank line. */
const blankBytes = 2

/** The blocks that end a stream, and whether the gateway itself says that it is whole. */
export type GoodEnd = Readonly<{ blocks: readonly Buffer[]; isAdded: boolean }>

export class StreamState {
  readonly #kind: StreamKind
  readonly #choices: ChatChoices | undefined
  #isFirstBlock = true
  /** Blocks without data that begin as a JSON object, as an error does that is written without `data:`. */
  #stray: Buffer | undefined
  hasEvents = false
  hasIds = false
  sequenceNumber: number | undefined
  responseId: string | undefined
  createdAt: number | undefined

  constructor({ kind, end }: StreamRules) {
    this.#kind = kind
    this.#choices = end === 'finishReason' ? new ChatChoices() : undefined
  }

  /** Reads the block from `start` to `end`. Blocks of one chunk may share their finder of line ends. */
  read(bytes: Buffer, start = 0, end = bytes.length, findLineEnd?: FindLineEnd): BlockKind {
    const isFirst = this.#isFirstBlock
    this.#isFirstBlock = false
    // A blank line, of which a stream may send sixty thousand in one read.
    if (end - start <= blankBytes) return 'no-event'
    const from = isFirst ? afterByteOrderMark(bytes, start) : start
    const fields = readFields(bytes, from, end, findLineEnd)
    this.hasIds ||= fields.hasId
    if (fields.data === undefined) {
      this.#keepStray(bytes.subarray(from, end))
      return 'no-event'
    }
    this.#stray = undefined
    this.hasEvents = true
    if (this.#isTerminal(fields, fields.data)) return 'terminal-event'
    this.#choices?.read(fields.data, fields.name)
    return 'event'
  }

  /**
   * The last blocks of a stream whose framing proves its end, undefined if it has no good end. The rest is the block that
   * lacks its blank line.
   */
  findGoodEnd(rest: Buffer | undefined): GoodEnd | undefined {
    if (rest && this.#isWholeEnd(rest)) {
      this.read(rest)
      return { blocks: [rest], isAdded: false }
    }
    // An error that is written without `data:` ends no stream well.
    if (!this.#choices || this.#stray) return undefined
    if (rest) {
      // Half a line may be the begin of more. It stays unread, for it may be such an error.
      if (readFields(this.#afterMark(rest)).data === undefined && !hasCommentsAlone(rest)) return undefined
      this.read(rest)
    }
    return this.#choices.areFinished ? { blocks: rest ? [rest, doneEvent] : [doneEvent], isAdded: true } : undefined
  }

  /** The error that the upstream wrote in place of its last event, also without the blank line behind it. */
  readToldError(last: Buffer | undefined): ToldError | undefined {
    // The state may have read this block, and then it no longer counts as the first.
    const rest = last && withoutByteOrderMark(last)
    const data = rest && readFields(rest).data
    if (data !== undefined) return readToldError(data)
    if (rest && (this.#stray || mayTellError(rest))) return readToldError(Buffer.concat([this.#stray ?? nothing, rest]))
    return this.#stray && readToldError(this.#stray)
  }

  /** A byte order mark may stand before the first block alone. */
  #afterMark(block: Buffer): Buffer {
    return this.#isFirstBlock ? withoutByteOrderMark(block) : block
  }

  #keepStray(block: Buffer): void {
    const kept = this.#stray
    if ((!kept && !mayTellError(block)) || (kept?.length ?? 0) + block.length > mostErrorBytes) return
    this.#stray = Buffer.concat([kept ?? nothing, block])
  }

  /**
   * Whether a block that lacks its blank line is a whole terminal event. Only the type in its data counts, and all of its
   * JSON is looked at, since a name tells nothing of what is missing. The state does not change.
   */
  #isWholeEnd(block: Buffer): boolean {
    const { data } = readFields(this.#afterMark(block))
    if (data === undefined) return false
    if (this.#kind === 'chat' && isDone(data)) return true
    let isTerminal: boolean | undefined
    scanMembers(data, 0, (key, start, end) => {
      // Parsers take the last of several members with one name.
      if (key === 'type') isTerminal = isOneOf(terminalTypes, data, start, end)
      return true
    })
    return isTerminal === true && isWholeObject(data)
  }

  #isTerminal({ name }: EventFields, data: Buffer): boolean {
    if (this.#kind === 'chat' && isDone(data)) return true
    // SDKs read the type inside the data, so the event's name counts only without a type.
    const isTerminal = this.#kind === 'chat' ? this.#readChunk(data) : this.#readEvent(data)
    return isTerminal ?? (name !== undefined && terminalTypes.includes(name))
  }

  #readEvent(data: Buffer): boolean | undefined {
    let isTerminal: boolean | undefined
    let isNumbered = false
    scanMembers(data, 0, (key, start, end) => {
      if (key === 'type') {
        isTerminal = isOneOf(terminalTypes, data, start, end)
      } else if (key === 'sequence_number') {
        const number = readScalar(data, start, end)
        isNumbered = Number.isSafeInteger(number)
        if (typeof number === 'number' && isNumbered) this.sequenceNumber = number
      } else if (key === 'response') {
        this.#readIdentity(data, start, 'created_at')
      }
      return isTerminal === undefined || !isNumbered || this.responseId === undefined
    })
    return isTerminal
  }

  /** A chunk of a chat completion has a type only if another gateway such as this one sent it. */
  #readChunk(data: Buffer): boolean | undefined {
    let isTerminal: boolean | undefined
    if (this.responseId === undefined) this.#readIdentity(data, 0, 'created')
    scanMembers(data, 0, (key, start, end) => {
      if (key === 'type') isTerminal = isOneOf(terminalTypes, data, start, end)
      return isTerminal === undefined
    })
    return isTerminal
  }

  #readIdentity(data: Buffer, from: number, createdKey: string): void {
    if (this.responseId !== undefined) return
    scanMembers(data, from, (key, start, end) => {
      if (key !== 'id' && key !== createdKey) return true
      const value = readScalar(data, start, end)
      if (key === 'id' && typeof value === 'string') this.responseId = value
      else if (key === createdKey && Number.isSafeInteger(value)) this.createdAt = value as number
      return this.responseId === undefined || this.createdAt === undefined
    })
  }
}

const hasCommentsAlone = (block: Buffer): boolean =>
  block
    .toString('latin1')
    .split(/[\r\n]/)
    .every((line) => line === '' || line.startsWith(':'))

const isDone = (data: Buffer): boolean => data[0] === done[0] && data.subarray(0, done.length).equals(done)

const afterByteOrderMark = (bytes: Buffer, start: number): number =>
  hasByteOrderMark(bytes, start) ? start + byteOrderMark.length : start

const hasByteOrderMark = (bytes: Buffer, start: number): boolean =>
  byteOrderMark.every((byte, index) => bytes[start + index] === byte)

export const withoutByteOrderMark = (block: Buffer): Buffer =>
  hasByteOrderMark(block, 0) ? block.subarray(byteOrderMark.length) : block
