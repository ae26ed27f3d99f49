import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { GatewayError } from '../../errors/gateway-error.ts'
import { type ListenerOptions, UpstreamError } from '../engine.ts'
import type { RequestBody } from '../exchange.ts'

export type BodyOptions = Readonly<{ expectsContinue: boolean }> &
  Pick<ListenerOptions, 'bodyIdleTimeoutMs' | 'bodyBytesPerSecond'>

/** How much must come in how long, at the least. */
type Pace = Readonly<{ idleTimeoutMs: number; idleBytes: number }>

/** A body on node:http, not asked for until somebody takes it: `Expect: 100-continue` is answered at that moment. */
export class NodeRequestBody implements RequestBody {
  readonly length: number | undefined
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly expectsContinue: boolean
  isTaken = false
  readonly #options: BodyOptions

  constructor(request: IncomingMessage, response: ServerResponse, options: BodyOptions) {
    this.#request = request
    this.#response = response
    this.expectsContinue = options.expectsContinue
    this.#options = options
    const { 'content-length': length, 'transfer-encoding': encoding } = request.headers
    this.length = encoding !== undefined ? undefined : length === undefined ? 0 : Number(length)
  }

  /** The bytes, counted against the limit and watched for their pace. */
  take(limitBytes: number, idleTimeoutMs: number = this.#options.bodyIdleTimeoutMs): Readable {
    this.isTaken = true
    if (this.expectsContinue) this.#response.writeContinue()
    const idleBytes = (this.#options.bodyBytesPerSecond * idleTimeoutMs) / 1_000
    return new BodyStream(this.#request, this.#response, limitBytes, { idleTimeoutMs, idleBytes })
  }

  async read(limitBytes: number): Promise<Buffer> {
    if (this.length !== undefined && this.length > limitBytes) throw new GatewayError('body_too_large')
    const chunks: Buffer[] = []
    try {
      for await (const chunk of this.take(limitBytes)) chunks.push(chunk)
    } catch (error) {
      if (error instanceof UpstreamError && error.fault === 'body-too-large') throw new GatewayError('body_too_large')
      throw new GatewayError('request_timeout', { cause: error })
    }
    return Buffer.concat(chunks)
  }
}

/**
 * The request's bytes behind a stream of their own: undici destroys a body it no longer needs,
 * and destroying an IncomingMessage would take the client's connection, and our answer, with it.
 */
class BodyStream extends Readable {
  readonly #source: IncomingMessage
  readonly #response: ServerResponse
  readonly #limitBytes: number
  readonly #pace: Pace
  #leaveSource: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #receivedBytes = 0
  /** What came since the clock was set. */
  #freshBytes = 0

  constructor(source: IncomingMessage, response: ServerResponse, limitBytes: number, pace: Pace) {
    super()
    this.#source = source
    this.#response = response
    this.#limitBytes = limitBytes
    this.#pace = pace
    const onClose = (): void => {
      if (!source.complete) this.destroy(new UpstreamError('cancelled'))
    }
    const listeners = Object.entries({
      data: (chunk: Buffer): void => this.#take(chunk),
      end: (): void => this.#finish(),
      close: onClose,
      error: onClose,
    })
    for (const [event, listener] of listeners) source.on(event, listener)
    this.#leaveSource = () => {
      for (const [event, listener] of listeners) source.off(event, listener)
    }
    source.pause()
  }

  override _read(): void {
    // The clock runs only while we wait for the client: a slow upstream is not the client's fault.
    this.#timer ??= setTimeout(() => this.destroy(new UpstreamError('body-timeout')), this.#pace.idleTimeoutMs)
    this.#source.resume()
  }

  /** undici holds on to a body until its answer has ended, which for a stream takes long: little may hang on it. */
  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#stopTimer()
    this.#leaveSource?.()
    this.#leaveSource = undefined
    // Undici may do this after the answer: then the rest is being read already, and dropped.
    if (!this.#response.writableEnded) this.#source.pause()
    // A listener of undici's stays, and with it the text of the request's whole head.
    this.once('close', () => this.removeAllListeners())
    callback(error)
  }

  #take(chunk: Buffer): void {
    this.#receivedBytes += chunk.length
    if (this.#receivedBytes > this.#limitBytes) {
      this.destroy(new UpstreamError('body-too-large'))
      return
    }
    this.#freshBytes += chunk.length
    if (this.push(chunk)) {
      // A byte now and then is no progress: it would hold an upstream for as long as its sender likes.
      if (this.#freshBytes < this.#pace.idleBytes) return
      this.#freshBytes = 0
      this.#timer?.refresh()
      return
    }
    this.#freshBytes = 0
    this.#stopTimer()
    this.#source.pause()
  }

  #finish(): void {
    this.#stopTimer()
    this.push(null)
  }

  #stopTimer(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
