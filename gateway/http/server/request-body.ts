import { GatewayError, type RefusalCode } from '../../errors/gateway-error.ts'
import { type ListenerOptions, UpstreamError, type UpstreamFault } from '../engine.ts'
import type { MemoryAccount, RequestBody } from '../exchange.ts'
import type { Deadline } from '../socket/deadline.ts'
import { HeldChunks } from '../socket/held-chunks.ts'

/** What is kept of a body that nobody asks for just now: about one read of a socket. */
export const earlyBodyBytes = 64 * 1024

/** The refusal that a fault of the client's own body is; a client that has left reads none. */
function refusalOfBodyFault(fault: UpstreamFault): RefusalCode {
  if (fault === 'body-too-large') return 'body_too_large'
  return fault === 'body-malformed' ? 'headers_malformed' : 'request_timeout'
}

/** Where a body comes from: the connection of its client. */
export type BodySource = Readonly<{
  alarm: Deadline
  account: MemoryAccount
  pauseReading: () => void
  resumeReading: () => void
  writeContinue: () => void
}>

/** Where a body goes. It may `pause` the body at any time, and `resume` it. */
export type BodyTaker = Readonly<{
  /** Given bytes that are another's as soon as it returns. */
  data: (chunk: Buffer) => void
  end: () => void
  fail: (error: UpstreamError) => void
}>

export type BodyPace = Pick<ListenerOptions, 'bodyIdleTimeoutMs' | 'minBodyBytesPerSecond'>

/** A body on its way, not asked for until somebody takes it: `Expect: 100-continue` is answered at that moment. */
export class WireRequestBody implements RequestBody {
  readonly length: number | undefined
  /** True until a client that waits for it was told to go on. */
  awaitsContinue: boolean
  /** True once its last byte is here. */
  isReceived = false
  /** True once its taker needs no more of it: no answer waits for the rest. */
  isLeft = false
  readonly #source: BodySource
  readonly #pace: BodyPace
  #taker: BodyTaker | undefined
  readonly #held: HeldChunks
  #isPaused = false
  #isUnwanted = false
  /** Set once what came is no body. */
  #onSpoilt: (() => void) | undefined
  #limitBytes = 0
  #idleMs = 0
  #receivedBytes = 0
  /** What came since the clock was set. */
  #freshBytes = 0

  constructor(source: BodySource, length: number | undefined, awaitsContinue: boolean, pace: BodyPace) {
    this.#source = source
    this.#held = new HeldChunks(source.account, earlyBodyBytes)
    this.length = length
    this.awaitsContinue = awaitsContinue
    this.#pace = pace
  }

  /** Gives the bytes to a taker, counted against the limit and watched for their pace. */
  take(taker: BodyTaker, limitBytes: number, idleMs: number = this.#pace.bodyIdleTimeoutMs): void {
    this.#answerExpectation()
    this.#taker = taker
    this.#limitBytes = limitBytes
    this.#idleMs = idleMs
    if (this.#isUnwanted) this.#fail('cancelled')
    else if (this.#onSpoilt) this.#refuseSpoilt()
    else this.resume()
  }

  /** The whole body, should it be here already and small enough to be copied; then nothing is left to take. */
  takeWhole(limitBytes: number, smallBytes: number): Buffer | undefined {
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
      this.take({ data: (chunk) => chunks.push(chunk), end, fail }, limitBytes)
    })
    return chunks.takeAll()
  }

  /** Says that its taker can take no more for now. The client is not waited for meanwhile: it is not its fault. */
  pause(): void {
    this.#isPaused = true
    this.#freshBytes = 0
    this.#source.alarm.stop()
  }

  resume(): void {
    this.#isPaused = false
    while (!this.#held.isEmpty && this.#taker && !this.#isPaused) {
      const chunk = this.#held.shift()
      this.#give(chunk.bytes)
      chunk.giveBack()
    }
    if (!this.#taker || this.#isPaused) return
    if (this.isReceived) this.#finish()
    else {
      this.#startClock()
      this.#source.resumeReading()
    }
  }

  /** Whether what comes is passed on at once. */
  get isFlowing(): boolean {
    return this.#taker !== undefined && !this.#isPaused
  }

  /** To be called by a taker that needs no more: nothing is read on, until it is known what to do with the rest. */
  leave(): void {
    this.isLeft = true
    this.#release()
  }

  #release(): void {
    if (!this.#taker) return
    this.#taker = undefined
    this.#source.alarm.stop()
  }

  /** Drops what is here and what still comes. */
  discard(): void {
    this.leave()
    this.#isUnwanted = true
    this.#held.clear()
    this.#source.resumeReading()
  }

  /** For the connection: more of the body, in bytes that are another's as soon as this returns. */
  push(chunk: Buffer): void {
    if (this.#isUnwanted) return
    if (this.#taker && !this.#isPaused) {
      this.#give(chunk)
      return
    }
    this.#held.push(chunk)
    if (this.#held.isFull) this.#source.pauseReading()
  }

  /** For the connection: its end. */
  finish(): void {
    this.isReceived = true
    if (this.#taker && !this.#isPaused) this.#finish()
  }

  /** For the connection: the rest is no body. Its taker is told, now or when there is one, and the connection first. */
  spoil(onWanted: () => void): void {
    this.#held.clear()
    this.#onSpoilt = onWanted
    if (this.#taker) this.#refuseSpoilt()
  }

  /** For the connection: it has gone, or what came is no body. */
  break(): void {
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
    if (this.#freshBytes >= (this.#pace.minBodyBytesPerSecond * this.#idleMs) / 1_000 && !this.isReceived)
      this.#startClock()
    this.#taker?.data(chunk)
  }

  #startClock(): void {
    this.#freshBytes = 0
    this.#source.alarm.set(this.#idleMs, this.#onSilence)
  }

  readonly #onSilence = (): void => this.#fail('body-timeout')

  #refuseSpoilt(): void {
    this.#onSpoilt?.()
    this.#fail('body-malformed')
  }

  #finish(): void {
    const taker = this.#taker
    this.#release()
    taker?.end()
  }

  #fail(fault: UpstreamFault): void {
    const taker = this.#taker
    this.#release()
    taker?.fail(new UpstreamError(fault))
  }

  #answerExpectation(): void {
    if (!this.awaitsContinue) return
    this.awaitsContinue = false
    this.#source.writeContinue()
  }
}
