import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { GatewayError } from '../../errors/gateway-error.ts'
import { type ListenerOptions, UpstreamError } from '../engine.ts'
import type { RequestBody } from '../exchange.ts'

export type BodyOptions = Readonly<{ expectsContinue: boolean }> &
  Pick<ListenerOptions, 'bodyIdleTimeoutMs' | 'bodyIdleBytes'>

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

  /** The bytes, counted against the limit and watched for silence. */
  take(limitBytes: number): Readable {
    this.isTaken = true
    if (this.expectsContinue) this.#response.writeContinue()
    return new BodyStream(this.#request, limitBytes, this.#options)
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
  readonly #limitBytes: number
  readonly #options: BodyOptions
  #timer: NodeJS.Timeout | undefined
  #receivedBytes = 0
  /** What came since the clock was set. */
  #freshBytes = 0

  constructor(source: IncomingMessage, limitBytes: number, options: BodyOptions) {
    super()
    this.#source = source
    this.#limitBytes = limitBytes
    this.#options = options
    source.on('data', this.#onData)
    source.on('end', this.#onEnd)
    source.on('close', this.#onClose)
    source.on('error', this.#onClose)
    source.pause()
  }

  override _read(): void {
    // The clock runs only while we wait for the client: a slow upstream is not the client's fault.
    this.#timer ??= setTimeout(this.#onIdle, this.#options.bodyIdleTimeoutMs)
    this.#source.resume()
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    clearTimeout(this.#timer)
    this.#source.off('data', this.#onData)
    this.#source.off('end', this.#onEnd)
    this.#source.off('close', this.#onClose)
    this.#source.pause()
    callback(error)
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#receivedBytes += chunk.length
    if (this.#receivedBytes > this.#limitBytes) {
      this.destroy(new UpstreamError('body-too-large'))
      return
    }
    this.#freshBytes += chunk.length
    if (this.push(chunk)) {
      // A byte now and then is no progress: it would hold an upstream for as long as its sender likes.
      if (this.#freshBytes < this.#options.bodyIdleBytes) return
      this.#freshBytes = 0
      this.#timer?.refresh()
      return
    }
    this.#freshBytes = 0
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#source.pause()
  }

  readonly #onEnd = (): void => {
    clearTimeout(this.#timer)
    this.push(null)
  }

  readonly #onClose = (): void => {
    if (!this.#source.complete) this.destroy(new UpstreamError('cancelled'))
  }

  readonly #onIdle = (): void => {
    this.destroy(new UpstreamError('body-timeout'))
  }
}
