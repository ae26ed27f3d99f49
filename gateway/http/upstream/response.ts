import { type ResponseSink, type UpstreamAnswer, UpstreamError, type UpstreamFault } from '../engine.ts'
import type { MemoryAccount, RawHeaders } from '../exchange.ts'
import type { MessageHead } from '../parser/message-parser.ts'
import { HeldChunks } from '../socket/held-chunks.ts'
import type { UpgradedSocket } from '../tunnel.ts'
import { endsWithHead } from './sound-head.ts'

/** What is kept of a body that nobody reads yet: about one read of a socket. */
const heldLimitBytes = 64 * 1024

export type Settle = Readonly<{ resolve: (answer: UpstreamAnswer) => void; reject: (error: UpstreamError) => void }>

/** What a call needs of its connection. */
export type CallWire = Readonly<{
  pauseReading: () => void
  resumeReading: () => void
  /** The reader's patience with a silent upstream. */
  watchSilence: (idleMs: number, onSilence: () => void) => void
  drop: () => void
}>

/** One request's answer, from its head to its end: it outlives its turn on the connection, if its reader is slow. */
export class UpstreamCall {
  /** Undefined once the connection is another's, or no more. */
  #wire: CallWire | undefined
  #promise: Settle | undefined
  #idleMs: number
  #sink: ResponseSink | undefined
  readonly #held: HeldChunks
  #isPaused = true
  #endsWithHead = false
  #outcome: 'pending' | 'complete' | UpstreamError = 'pending'
  #isTold = false

  constructor(wire: CallWire, idleMs: number, account: MemoryAccount, promise: Settle) {
    this.#wire = wire
    this.#held = new HeldChunks(account, heldLimitBytes)
    this.#idleMs = idleMs
    this.#promise = promise
  }

  get isPending(): boolean {
    return this.#outcome === 'pending'
  }

  /** The client may leave at any time. */
  readonly abort = (): void => this.fail('cancelled')

  readonly pipe = (sink: ResponseSink, idleMs: number = this.#idleMs): void => {
    this.#sink = sink
    this.#idleMs = idleMs
    this.resume()
  }

  readonly resume = (): void => {
    if (!this.#sink) return
    this.#isPaused = false
    while (!this.#held.isEmpty && !this.#isPaused) {
      const chunk = this.#held.shift()
      this.#isPaused = !this.#sink.data(chunk.bytes)
      chunk.giveBack()
    }
    if (!this.#held.isEmpty) return
    if (this.#outcome !== 'pending') {
      this.#tell()
      return
    }
    this.#watch()
    if (!this.#isPaused) this.#wire?.resumeReading()
  }

  begin({ status, headers, firstLine }: MessageHead): void {
    this.#endsWithHead = endsWithHead(status)
    const promise = this.#promise
    this.#promise = undefined
    // What a writer would refuse is left out.
    const reason = /^[\t\x20-\x7e]*$/.test(firstLine) ? firstLine : ''
    const { pipe, resume, abort } = this
    promise?.resolve({ status, reason, headers, pipe, resume, abort })
  }

  upgrade(headers: RawHeaders, connection: UpgradedSocket): void {
    this.#outcome = 'complete'
    this.#wire = undefined
    const promise = this.#promise
    this.#promise = undefined
    promise?.resolve({ headers, connection })
  }

  /** Given bytes that are another's as soon as it returns. */
  data(chunk: Buffer): void {
    if (this.#outcome !== 'pending' || this.#endsWithHead) return
    if (this.#sink && !this.#isPaused) {
      this.#isPaused = !this.#sink.data(chunk)
      // At once: what is read for a client that takes nothing is memory, and that of thousands makes work of its own.
      if (this.#isPaused) this.#wire?.pauseReading()
      this.#watch()
      return
    }
    this.#held.push(chunk)
    if (this.#held.isFull) this.#wire?.pauseReading()
  }

  /** The answer is whole. */
  complete(): void {
    this.#settle('complete')
    this.#tellIfRead()
  }

  /** The upstream has closed in the middle: what it said before is still good. */
  breakOff(error: UpstreamError): void {
    this.#settle(error)
    this.#promise?.reject(error)
    this.#promise = undefined
    this.#tellIfRead()
  }

  /** Ends the call at once, and its connection. */
  fail(fault: UpstreamFault | UpstreamError, cause?: unknown): void {
    if (this.#outcome !== 'pending') return
    const error = typeof fault === 'string' ? new UpstreamError(fault, { cause }) : fault
    const wire = this.#wire
    this.#settle(error)
    this.#held.clear()
    wire?.drop()
    this.#promise?.reject(error)
    this.#promise = undefined
    if (this.#sink) this.#tell()
  }

  #settle(outcome: 'complete' | UpstreamError): void {
    if (this.#outcome !== 'pending') return
    this.#outcome = outcome
    this.#wire = undefined
  }

  #tellIfRead(): void {
    if (this.#sink && this.#held.isEmpty) this.#tell()
  }

  #tell(): void {
    const sink = this.#sink
    if (this.#isTold || this.#outcome === 'pending' || !sink) return
    this.#isTold = true
    if (this.#outcome === 'complete') sink.end()
    else sink.fail(this.#outcome)
  }

  #watch(): void {
    if (this.#outcome === 'pending') this.#wire?.watchSilence(this.#idleMs, this.#onSilence)
  }

  readonly #onSilence = (): void => {
    // Who pauses is waited for by the upstream, not the other way round.
    if (this.#isPaused) this.#watch()
    else this.fail('timeout')
  }
}
