import type { StreamKind } from '../errors/surface.ts'
import { type EventFields, readFields } from './read-fields.ts'
import { isOneOf, readScalar, scanMembers } from './scan-json.ts'

/** What a block of a stream is: something that a client does not see as an event, an event, or the last word. */
export type BlockKind = 'no-event' | 'event' | 'terminal-event'

/** SPEC section 6, whatever the kind of stream: a worker may itself speak through a gateway such as this. */
const terminalTypes = ['response.completed', 'response.failed', 'response.incomplete']

/** Official SDKs stop at data that starts like this, not only at data that equals it. */
const done = Buffer.from('[DONE]')

const byteOrderMark = Buffer.from('\ufeff')

/** Keeps the little that a closing event must repeat of the events before it. */
export class StreamState {
  readonly #kind: StreamKind
  #isFirstBlock = true
  hasEvents = false
  /** Whether the client holds an event id by now. */
  hasIds = false
  sequenceNumber: number | undefined
  responseId: string | undefined
  createdAt: number | undefined

  constructor(kind: StreamKind) {
    this.#kind = kind
  }

  read(block: Buffer): BlockKind {
    const fields = readFields(this.#isFirstBlock ? withoutByteOrderMark(block) : block)
    this.#isFirstBlock = false
    this.hasIds ||= fields.hasId
    if (fields.data === undefined) return 'no-event'
    this.hasEvents = true
    return this.#isTerminal(fields, fields.data) ? 'terminal-event' : 'event'
  }

  #isTerminal({ name }: EventFields, data: Buffer): boolean {
    if (this.#kind === 'chat' && data.subarray(0, done.length).equals(done)) return true
    // What SDKs go by is the type within; the event's name counts where there is none.
    const isTerminal = this.#kind === 'chat' ? this.#readChunk(data) : this.#readEvent(data)
    return isTerminal ?? (name !== undefined && terminalTypes.includes(name))
  }

  /** Takes note of an event of the Responses API; says whether its type is a terminal one, where it has one. */
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

  /** Takes note of a chunk of a chat completion; one that has a type comes from a gateway such as this. */
  #readChunk(data: Buffer): boolean | undefined {
    let isTerminal: boolean | undefined
    if (this.responseId === undefined) this.#readIdentity(data, 0, 'created')
    scanMembers(data, 0, (key, start, end) => {
      if (key === 'type') isTerminal = isOneOf(terminalTypes, data, start, end)
      return isTerminal === undefined
    })
    return isTerminal
  }

  /** The first id stands: one stream is one response. */
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

/** A mark at the start of a stream belongs to no field (WHATWG HTML 9.2.6). */
export const withoutByteOrderMark = (block: Buffer): Buffer =>
  block.subarray(0, byteOrderMark.length).equals(byteOrderMark) ? block.subarray(byteOrderMark.length) : block
