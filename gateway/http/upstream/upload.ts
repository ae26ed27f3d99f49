import type { UpstreamError } from '../engine.ts'
import type { BodyConsumer, Http1RequestBody } from '../server/request-body.ts'
import { composeFraming } from './request-head.ts'

export type UploadConnection = Readonly<{
  write: (text: string) => boolean
  writeBorrowed: (bytes: Buffer) => boolean
}>

export type UploadEvents = Readonly<{
  sent: () => void
  blocked: (isBlocked: boolean) => void
  failed: (error: UpstreamError) => void
}>

/** As `coalesceLimit`: Node writes a head and a body up to this size as one string, without a copy. */
const smallBytes = 16 * 1024

/** Writes a head and its body. The head waits for the first bytes or the end of the body. */
export class Upload implements BodyConsumer {
  readonly #connection: UploadConnection
  readonly #method: string
  readonly #body: Http1RequestBody
  readonly #events: UploadEvents
  #head: string

  constructor(
    connection: UploadConnection,
    method: string,
    head: string,
    body: Http1RequestBody,
    events: UploadEvents,
  ) {
    this.#connection = connection
    this.#method = method
    this.#head = head
    this.#body = body
    this.#events = events
  }

  start(limitBytes: number, idleMs: number | undefined): void {
    const whole = this.#body.consumeWhole(limitBytes, smallBytes)
    if (!whole) {
      this.#body.consume(this, limitBytes, idleMs)
      return
    }
    const { length } = this.#body
    const content = whole.toString('latin1')
    if (length !== undefined || content === '')
      this.#connection.write(this.#head + composeFraming(this.#method, whole.length) + content)
    else
      this.#connection.write(
        `${this.#head}${composeFraming(this.#method, undefined)}${frame(whole, content)}${lastChunk}`,
      )
    this.#events.sent()
  }

  readonly data = (chunk: Buffer): void => {
    const { length } = this.#body
    const isChunk = length === undefined
    const before = this.#head === '' ? '' : this.#head + composeFraming(this.#method, length)
    this.#head = ''
    const hasRoom = this.#write(before, chunk, isChunk)
    if (hasRoom) return
    this.#body.pause()
    this.#events.blocked(true)
  }

  readonly end = (): void => {
    if (this.#head !== '') this.#connection.write(this.#head + composeFraming(this.#method, 0))
    else if (this.#body.length === undefined) this.#connection.write(lastChunk)
    this.#head = ''
    this.#events.sent()
  }

  readonly fail = (error: UpstreamError): void => this.#events.failed(error)

  goOn(): void {
    this.#events.blocked(false)
    this.#body.resume()
  }

  detach(): void {
    this.#body.detach()
  }

  #write(before: string, chunk: Buffer, isChunk: boolean): boolean {
    if (before.length + chunk.length <= smallBytes) {
      const content = chunk.toString('latin1')
      return this.#connection.write(before + (isChunk ? frame(chunk, content) : content))
    }
    const prefix = isChunk ? `${before}${chunk.length.toString(16)}\r\n` : before
    if (prefix !== '') this.#connection.write(prefix)
    const hasRoom = this.#connection.writeBorrowed(chunk)
    return isChunk ? this.#connection.write('\r\n') : hasRoom
  }
}

const lastChunk = '0\r\n\r\n'

const frame = (chunk: Buffer, content: string): string => `${chunk.length.toString(16)}\r\n${content}\r\n`
