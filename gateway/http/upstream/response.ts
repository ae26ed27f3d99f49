import type { Deadline } from '../../base/lib/deadline.ts'
import { type BodyEnd, type ResponseSink, UpstreamError, type UpstreamFault, type UpstreamResult } from '../engine.ts'
import type { MemoryAccount, RawHeaders } from '../exchange.ts'
import type { MessageHead } from '../parser/message-parser.ts'
import { HeldChunks } from '../socket/held-chunks.ts'
import type { UpgradedSocket } from '../tunnel.ts'
import { endsWithHead } from './response-framing.ts'

/** Bytes buffered of a body before it is piped: about one read of a socket. */
const heldLimitBytes = 64 * 1024

export type Resolvers = Readonly<{ resolve: (answer: UpstreamResult) => void; reject: (error: UpstreamError) => void }>

export type ResponseSource = Readonly<{
  isHeld: boolean
  pauseReading: () => void
  resumeReading: () => void
  deadline: Deadline
  drop: () => void
}>

/** Thousands may be cancelled at once, and the trace of an error takes more time than the rest of the cancelling. */
const cancelled = new UpstreamError('cancelled')

const describeFault = (fault: UpstreamFault, cause: unknown): UpstreamError =>
  fault === 'cancelled' ? cancelled : new UpstreamError(fault, { cause })

/** One response, from its head to its end. With a slow client it outlives its cycle on the connection. */
export class ResponseStream {
  #source: ResponseSource | undefined
  #resolvers: Resolvers | undefined
  #idleMs: number
  #sink: ResponseSink | undefined
  readonly #held: HeldChunks
  #isPaused = true
  #endsWithHead = false
  #outcome: 'pending' | BodyEnd | UpstreamError = 'pending'
  #isTold = false

  constructor(source: ResponseSource, idleMs: number, account: MemoryAccount, resolvers: Resolvers) {
    this.#source = source
    this.#held = new HeldChunks(account, heldLimitBytes)
    this.#idleMs = idleMs
    this.#resolvers = resolvers
  }

  get isPending(): boolean {
    return this.#outcome === 'pending'
  }

  #pipe(sink: ResponseSink, idleMs: number): void {
    this.#sink = sink
    this.#idleMs = idleMs
    this.#resume()
  }

  #resume(): void {
    if (!this.#sink) return
    this.#isPaused = false
    while (!this.#held.isEmpty && !this.#isPaused) {
      const chunk = this.#held.shift()
      this.#isPaused = !this.#sink.data(chunk.bytes)
      chunk.recycle()
    }
    if (!this.#held.isEmpty) return
    if (this.#outcome !== 'pending') {
      this.#tell()
      return
    }
    this.#watch()
    if (!this.#isPaused) this.#source?.resumeReading()
  }

  begin({ status, headers, firstLine }: MessageHead): void {
    this.#endsWithHead = endsWithHead(status)
    const resolvers = this.#resolvers
    this.#resolvers = undefined
    const reason = /^[\t\x20-\x7e]*$/.test(firstLine) ? firstLine : ''
    resolvers?.resolve({
      status,
      reason,
      headers,
      pipe: (sink, idleMs = this.#idleMs) => this.#pipe(sink, idleMs),
      resume: () => this.#resume(),
      abort: () => this.fail('cancelled'),
    })
  }

  upgrade(headers: RawHeaders, connection: UpgradedSocket): void {
    this.#outcome = 'framed'
    this.#source = undefined
    const resolvers = this.#resolvers
    this.#resolvers = undefined
    resolvers?.resolve({ headers, connection })
  }

  data(chunk: Buffer): void {
    if (this.#outcome !== 'pending' || this.#endsWithHead) return
    if (this.#sink && !this.#isPaused) {
      this.#isPaused = !this.#sink.data(chunk)
      // Pause at once: bytes read for thousands of stalled clients take memory and time.
      if (this.#isPaused) this.#source?.pauseReading()
      this.#watch()
      return
    }
    this.#held.push(chunk)
    if (this.#held.isFull) this.#source?.pauseReading()
  }

  complete(how: BodyEnd): void {
    this.#settle(how)
    this.#tellIfRead()
  }

  truncate(error: UpstreamError): void {
    this.#settle(error)
    this.#resolvers?.reject(error)
    this.#resolvers = undefined
    this.#tellIfRead()
  }

  fail(fault: UpstreamFault | UpstreamError, cause?: unknown): void {
    if (this.#outcome !== 'pending') return
    const error = typeof fault === 'string' ? describeFault(fault, cause) : fault
    const source = this.#source
    this.#settle(error)
    this.#held.clear()
    source?.drop()
    this.#resolvers?.reject(error)
    this.#resolvers = undefined
    if (this.#sink) this.#tell()
  }

  #settle(outcome: BodyEnd | UpstreamError): void {
    if (this.#outcome !== 'pending') return
    this.#outcome = outcome
    this.#source = undefined
  }

  #tellIfRead(): void {
    if (this.#sink && this.#held.isEmpty) this.#tell()
  }

  #tell(): void {
    const sink = this.#sink
    const outcome = this.#outcome
    if (this.#isTold || outcome === 'pending' || !sink) return
    this.#isTold = true
    if (outcome instanceof UpstreamError) sink.fail(outcome)
    else sink.end(outcome)
  }

  #watch(): void {
    if (this.#outcome === 'pending') this.#source?.deadline.set(this.#idleMs, this, ResponseStream.#onSilence)
  }

  static #onSilence(response: ResponseStream): void {
    // A paused client keeps the upstream waiting, not the other way round. So does the gateway, which has not read it yet.
    if (response.#isPaused || response.#source?.isHeld) response.#watch()
    else response.fail('timeout')
  }
}
