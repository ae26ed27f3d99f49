import type { StreamKind } from '../errors/surface.ts'
import { type EventFields, readFields } from './read-fields.ts'
import { isOneOf, readScalar, scanMembers } from './scan-json.ts'

export type BlockKind = 'no-event' | 'event' | 'terminal-event'

/** SPEC section 6. They count in chat streams too, because a worker may itself stand behind such a gateway. */
const terminalTypes = ['response.completed', 'response.failed', 'response.incomplete']

/** Official SDKs stop at data that starts like this, not only at data that equals it. */
const done = Buffer.from('[DONE]')

const byteOrderMark = Buffer.from('\ufeff')

export class StreamState {
  readonly #kind: StreamKind
  #isFirstBlock = true
  hasEvents = false
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

export const withoutByteOrderMark = (block: Buffer): Buffer =>
  block.subarray(0, byteOrderMark.length).equals(byteOrderMark) ? block.subarray(byteOrderMark.length) : block
