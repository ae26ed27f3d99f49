import { GatewayError, type RefusalCause } from '../../errors/gateway-error.ts'
import { type ListenerOptions, UpstreamError, type UpstreamFault } from '../engine.ts'
import type { MemoryAccount, RequestBody } from '../exchange.ts'
import type { Deadline } from '../socket/deadline.ts'
import { HeldChunks } from '../socket/held-chunks.ts'

/** What is kept of a body that nobody asks for just now: about one read of a socket. */
export const earlyBodyBytes = 64 * 1024

/** The refusal that a fault of the client's own body is; a client that has left reads none. */
function refusalOfBodyFault(fault: UpstreamFault): RefusalCause {
  if (fault === 'body-too-large') return 'body_too_large'
  return fault === 'body-malformed' ? 'body_malformed' : 'request_timeout'
}

/** Where a body comes from: the connection of its client. */
export type BodySource = Readonly<{
  deadline: Deadline
  account: MemoryAccount
  pauseReading: () => void
  resumeReading: () => void
  writeContinue: () => void
}>

/** Where a body goes. It may `pause` the body at any time, and `resume` it. */
export type BodyConsumer = Readonly<{
  /** Given bytes that are another's as soon as it returns. */
  data: (chunk: Buffer) => void
  end: () => void
  fail: (error: UpstreamError) => void
}>

export type MinUploadRate = Pick<ListenerOptions, 'bodyIdleTimeoutMs' | 'minBodyBytesPerSecond'>

/** A body on its way, not asked for until somebody takes it: `Expect: 100-continue` is answered at that moment. */
export class Http1RequestBody implements RequestBody {
  readonly length: number | undefined
  /** True until a client that waits for it was told to go on. */
  awaitsContinue: boolean
  /** True once its last byte is here. */
  isReceived = false
  /** True once its consumer needs no more of it: no answer waits for the rest. */
  isDetached = false
  readonly #source: BodySource
  readonly #minRate: MinUploadRate
  #consumer: BodyConsumer | undefined
  readonly #held: HeldChunks
  #isPaused = false
  #isUnwanted = false
  /** Set once what came is no body. */
  #onPoisoned: (() => void) | undefined
  #limitBytes = 0
  #idleMs = 0
  #receivedBytes = 0
  /** What came since the clock was set. */
  #freshBytes = 0

  constructor(source: BodySource, length: number | undefined, awaitsContinue: boolean, minRate: MinUploadRate) {
    this.#source = source
    this.#held = new HeldChunks(source.account, earlyBodyBytes)
    this.length = length
    this.awaitsContinue = awaitsContinue
    this.#minRate = minRate
  }

  /** Gives the bytes to a consumer, counted against the limit and watched for their pace. */
  consume(consumer: BodyConsumer, limitBytes: number, idleMs: number = this.#minRate.bodyIdleTimeoutMs): void {
    this.#answerExpectation()
    this.#consumer = consumer
    this.#limitBytes = limitBytes
    this.#idleMs = idleMs
    if (this.#isUnwanted) this.#fail('cancelled')
    else if (this.#onPoisoned) this.#refusePoisoned()
    else this.resume()
  }

  /** The whole body, should it be here already and small enough to be copied; then nothing is left to take. */
  consumeWhole(limitBytes: number, smallBytes: number): Buffer | undefined {
    if (!this.isReceived || this.#held.bytes > Math.min(limitBytes, smallBytes)) return undefined
    this.#answerExpectation()
    return this.#held.takeAll()
  }

  async read(limitBytes: number): Promise<Buffer> {
    if (this.length !== undefined && this.length > limitBytes) throw new GatewayError('body_too_large')
    const chunks = new HeldChunks(this.#source.account, limitBytes)
    await new Promise<void>((end, refuse) => {
      const fail = (cause: UpstreamError): void => {
        chunks.clear()
        refuse(new GatewayError(refusalOfBodyFault(cause.fault), { cause }))
      }
      this.consume({ data: (chunk) => chunks.push(chunk), end, fail }, limitBytes)
    })
    return chunks.takeAll()
  }

  /** Says that its consumer can take no more for now. The client is not waited for meanwhile: it is not its fault. */
  pause(): void {
    this.#isPaused = true
    this.#freshBytes = 0
    this.#source.deadline.stop()
  }

  resume(): void {
    this.#isPaused = false
    while (!this.#held.isEmpty && this.#consumer && !this.#isPaused) {
      const chunk = this.#held.shift()
      this.#give(chunk.bytes)
      chunk.recycle()
    }
    if (!this.#consumer || this.#isPaused) return
    if (this.isReceived) this.#finish()
    else {
      this.#startClock()
      this.#source.resumeReading()
    }
  }

  /** Whether what comes is passed on at once. */
  get isFlowing(): boolean {
    return this.#consumer !== undefined && !this.#isPaused
  }

  /** To be called by a consumer that needs no more: nothing is read on, until it is known what to do with the rest. */
  detach(): void {
    this.isDetached = true
    this.#release()
  }

  #release(): void {
    if (!this.#consumer) return
    this.#consumer = undefined
    this.#source.deadline.stop()
  }

  /** Drops what is here and what still comes. */
  discard(): void {
    this.detach()
    this.#isUnwanted = true
    this.#held.clear()
    this.#source.resumeReading()
  }

  /** For the connection: more of the body, in bytes that are another's as soon as this returns. */
  push(chunk: Buffer): void {
    if (this.#isUnwanted) return
    if (this.#consumer && !this.#isPaused) {
      this.#give(chunk)
      return
    }
    this.#held.push(chunk)
    if (this.#held.isFull) this.#source.pauseReading()
  }

  /** For the connection: its end. */
  finish(): void {
    this.isReceived = true
    if (this.#consumer && !this.#isPaused) this.#finish()
  }

  /** For the connection: the rest is no body. Its consumer is told, now or when there is one, and the connection first. */
  poison(onWanted: () => void): void {
    this.#held.clear()
    this.#onPoisoned = onWanted
    if (this.#consumer) this.#refusePoisoned()
  }

  /** For the connection: it has gone, or what came is no body. */
  abort(): void {
    this.#isUnwanted = true
    if (!this.isReceived) this.#fail('cancelled')
    this.#held.clear()
  }

  #give(chunk: Buffer): void {
    this.#receivedBytes += chunk.length
    if (this.#receivedBytes > this.#limitBytes) {
      this.#fail('body-too-large')
      return
    }
    this.#freshBytes += chunk.length
    // A byte now and then is no progress: it would hold an upstream for as long as its sender likes.
    if (this.#freshBytes >= (this.#minRate.minBodyBytesPerSecond * this.#idleMs) / 1_000 && !this.isReceived)
      this.#startClock()
    this.#consumer?.data(chunk)
  }

  #startClock(): void {
    this.#freshBytes = 0
    this.#source.deadline.set(this.#idleMs, this, Http1RequestBody.#onSilence)
  }

  static #onSilence(body: Http1RequestBody): void {
    body.#fail('body-timeout')
  }

  #refusePoisoned(): void {
    this.#onPoisoned?.()
    this.#fail('body-malformed')
  }

  #finish(): void {
    const consumer = this.#consumer
    this.#release()
    consumer?.end()
  }

  #fail(fault: UpstreamFault): void {
    const consumer = this.#consumer
    this.#release()
    consumer?.fail(new UpstreamError(fault))
  }

  #answerExpectation(): void {
    if (!this.awaitsContinue) return
    this.awaitsContinue = false
    this.#source.writeContinue()
  }
}
