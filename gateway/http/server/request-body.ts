import { GatewayError, type RefusalCause } from '../../base/errors/gateway-error.ts'
import { type ListenerOptions, UpstreamError, type UpstreamFault } from '../engine.ts'
import type { MemoryAccount, RequestBody } from '../exchange.ts'
import { HeldChunks } from '../socket/held-chunks.ts'

/** Bytes buffered of a body before it is consumed: about one read of a socket. */
export const earlyBodyBytes = 64 * 1024

/** The refusal for a fault of the client's own body. A client that has left reads none. */
function refusalOfBodyFault(fault: UpstreamFault): RefusalCause {
  if (fault === 'body-too-large') return 'body_too_large'
  return fault === 'body-malformed' ? 'body_malformed' : 'request_timeout'
}

export type BodySource = Readonly<{
  /** Has no effect on the deadlines of what comes before or after this body. */
  setDeadline: <Body>(delayMs: number, body: Body, onSilence: (body: Body) => void) => void
  stopDeadline: () => void
  account: MemoryAccount
  isHeld: boolean
  pauseReading: () => void
  resumeReading: () => void
  writeContinue: () => void
}>

export type BodyConsumer = Readonly<{
  data: (chunk: Buffer) => void
  end: () => void
  fail: (error: UpstreamError) => void
}>

export type MinUploadRate = Pick<ListenerOptions, 'bodyIdleTimeoutMs' | 'minBodyBytesPerSecond'>

/** A body that waits to be consumed: only then is `Expect: 100-continue` answered. */
export class Http1RequestBody implements RequestBody {
  readonly length: number | undefined
  awaitsContinue: boolean
  isReceived = false
  isDetached = false
  receivedBytes = 0
  readonly #source: BodySource
  readonly #minRate: MinUploadRate
  #consumer: BodyConsumer | undefined
  readonly #held: HeldChunks
  #isPaused = false
  #isUnwanted = false
  #onPoisoned: (() => void) | undefined
  #isAwaited = false
  #limitBytes = 0
  #idleMs = 0
  #freshBytes = 0

  constructor(source: BodySource, length: number | undefined, awaitsContinue: boolean, minRate: MinUploadRate) {
    this.#source = source
    this.#held = new HeldChunks(source.account, earlyBodyBytes)
    this.length = length
    this.awaitsContinue = awaitsContinue
    this.#minRate = minRate
  }

  consume(consumer: BodyConsumer, limitBytes: number, idleMs: number = this.#minRate.bodyIdleTimeoutMs): void {
    this.#answerExpectation()
    this.#consumer = consumer
    this.#limitBytes = limitBytes
    this.#idleMs = idleMs
    if (this.#isUnwanted) this.#fail('cancelled')
    else if (this.#onPoisoned) this.#refusePoisoned()
    else this.resume()
  }

  begin(idleMs: number = this.#minRate.bodyIdleTimeoutMs): Promise<void> | undefined {
    if (this.isReceived || this.length === 0 || !this.#held.isEmpty) return undefined
    this.#isAwaited = true
    return new Promise((resolve, reject) => {
      this.consume({ data: () => undefined, end: resolve, fail: reject }, 0, idleMs)
    })
  }

  cancel(): void {
    if (this.#isAwaited) this.#fail('cancelled')
  }

  /** The whole body where it was received and is small enough to copy; then nothing is left to consume. */
  consumeWhole(limitBytes: number, smallBytes: number): Buffer | undefined {
    if (!this.isReceived || this.#held.bytes > Math.min(limitBytes, smallBytes)) return undefined
    this.#answerExpectation()
    this.receivedBytes = this.#held.bytes
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

  /** Pauses for a consumer that is full. The deadline stops, since the client is not at fault. */
  pause(): void {
    this.#isPaused = true
    this.#freshBytes = 0
    this.#source.stopDeadline()
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

  get isFlowing(): boolean {
    return this.#consumer !== undefined && !this.#isPaused && !this.#isAwaited
  }

  detach(): void {
    this.isDetached = true
    this.#release()
  }

  #release(): void {
    if (!this.#consumer) return
    this.#consumer = undefined
    this.#isAwaited = false
    this.#source.stopDeadline()
  }

  discard(): void {
    this.detach()
    this.#isUnwanted = true
    this.#held.clear()
    this.#source.resumeReading()
  }

  push(chunk: Buffer): void {
    if (this.#isUnwanted) return
    if (this.isFlowing) {
      this.#give(chunk)
      return
    }
    this.#held.push(chunk)
    if (this.#held.isFull) this.#source.pauseReading()
    if (this.#isAwaited) this.#finish()
  }

  finish(): void {
    this.isReceived = true
    if (this.#consumer && !this.#isPaused) this.#finish()
  }

  /** The connection reports a malformed body first, then the consumer fails, now or when there is one. */
  poison(onWanted: () => void): void {
    this.#held.clear()
    this.#onPoisoned = onWanted
    if (this.#consumer) this.#refusePoisoned()
  }

  abort(): void {
    this.#isUnwanted = true
    if (!this.isReceived) this.#fail('cancelled')
    this.#held.clear()
  }

  #give(chunk: Buffer): void {
    this.receivedBytes += chunk.length
    if (this.receivedBytes > this.#limitBytes) {
      this.#fail('body-too-large')
      return
    }
    this.#freshBytes += chunk.length
    // A byte now and then does not extend the deadline: a slow sender would hold an upstream at will.
    if (this.#freshBytes >= (this.#minRate.minBodyBytesPerSecond * this.#idleMs) / 1_000 && !this.isReceived)
      this.#startClock()
    this.#consumer?.data(chunk)
  }

  #startClock(): void {
    this.#freshBytes = 0
    this.#source.setDeadline(this.#idleMs, this, Http1RequestBody.#onSilence)
  }

  static #onSilence(body: Http1RequestBody): void {
    // The client is not silent: the gateway has not read it yet.
    if (body.#source.isHeld) body.#startClock()
    else body.#fail('body-timeout')
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
