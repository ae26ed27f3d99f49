import type { ResponseSink, UpstreamError, UpstreamResponse } from '../engine/engine.ts'
import type { Exchange, ResponseHead, ResponseWriter } from '../engine/exchange.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { keepAlive, keepAliveAfterId, renderStreamFailure, responseIdPrefixes } from '../errors/render-stream.ts'
import { refusalOfStreamFailure, type StreamFailureCode } from '../errors/stream-failure.ts'
import type { StreamKind } from '../errors/surface.ts'
import { EventSplitter } from './split-events.ts'
import { StreamAccount, withoutByteOrderMark } from './stream-account.ts'
import type { StartTimer, Timer } from './timer.ts'

export type StreamSettings = Readonly<{
  kind: StreamKind
  /** Quiet after which a comment goes out, and with the first of them the head. */
  keepAliveMs: number
  eventLimitBytes: number
  startTimer: StartTimer
  now: () => Date
  /** For a response that never told its id. */
  makeId: () => string
  /** Called once: the head is out, or the client gone. */
  onStarted: () => void
  /** Called instead, with what goes out in the head's place. */
  onRefused: (error: unknown) => void
  /** Called just before the client is told of a failure. */
  onFailure: (code: StreamFailureCode, cause: unknown) => void
}>

type State = 'waiting' | 'streaming' | 'done' | 'failed' | 'closed'

/**
 * An event stream on its way to a client, whole events at a time, which says so if it dies (SPEC section 6).
 *
 *     waiting ── an event, or quiet ──▶ streaming ── terminal event ──▶ done ── any end ──▶ closed
 *        ╰── any end ──▶ failed: a refusal   ╰── any other end ──▶ failed: response.failed
 *
 * What follows the terminal event is between upstream and client. A client that leaves closes every state; that it
 * takes the upstream with it is seen to where the request was sent.
 */
export class WatchedStream implements ResponseSink {
  readonly #response: UpstreamResponse
  readonly #exchange: Exchange
  readonly #head: ResponseHead
  readonly #settings: StreamSettings
  readonly #splitter: EventSplitter
  readonly #account: StreamAccount
  readonly #quiet: Timer
  #state: State = 'waiting'
  #writer: ResponseWriter | undefined
  /** Comments and the like, which came while the head waits for an event. */
  #held: Buffer[] = []
  #heldBytes = 0
  #hasPassed = false
  #isBlocked = false

  constructor(response: UpstreamResponse, exchange: Exchange, head: ResponseHead, settings: StreamSettings) {
    this.#response = response
    this.#exchange = exchange
    this.#head = head
    this.#settings = settings
    this.#splitter = new EventSplitter(settings.eventLimitBytes)
    this.#account = new StreamAccount(settings.kind)
    this.#quiet = settings.startTimer(settings.keepAliveMs, () => this.#onQuiet())
    exchange.onEnd(() => this.#close())
  }

  data(chunk: Uint8Array): boolean {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    if (this.#state === 'waiting' || this.#state === 'streaming') this.#take(bytes)
    else if (this.#state === 'done') this.#write(bytes)
    return !this.#isBlocked
  }

  /** An end by the book is none without a terminal event: a body that only the connection delimits ends like this. */
  end(): void {
    this.#stop('worker_disconnected', undefined)
  }

  fail(error: UpstreamError): void {
    this.#stop(error.fault === 'timeout' ? 'upstream_timeout' : 'worker_disconnected', error)
  }

  /** Ends the stream for a reason of ours. */
  drain(): void {
    this.#stop('gateway_draining', undefined)
  }

  /** Ends the stream because of a bug of ours; false where its last word is said, and none can follow. */
  collapse(error: unknown): boolean {
    if (this.#state !== 'waiting' && this.#state !== 'streaming') return false
    this.#stop('internal_error', error)
    return true
  }

  #take(chunk: Buffer): void {
    const { bytes, ends, isTooLarge } = this.#splitter.split(chunk)
    let start = 0
    for (const end of ends) {
      const meaning = this.#account.read(bytes.subarray(start, end))
      start = end
      if (meaning !== 'terminal-event') continue
      this.#pass(bytes)
      this.#finish()
      return
    }
    this.#pass(bytes.subarray(0, start))
    if (isTooLarge) this.#stop('event_too_large', undefined)
  }

  #pass(bytes: Buffer): void {
    if (bytes.length === 0) return
    if (this.#state === 'waiting') {
      this.#held.push(bytes)
      this.#heldBytes += bytes.length
      if (this.#account.hasEvents) this.#begin()
      else if (this.#heldBytes > this.#settings.eventLimitBytes) this.#stop('event_too_large', undefined)
      return
    }
    this.#quiet.restart()
    // Behind a comment of ours the upstream's byte order mark would no longer be the stream's first.
    this.#write(this.#hasPassed ? bytes : withoutByteOrderMark(bytes))
    this.#hasPassed = true
  }

  #begin(): void {
    try {
      this.#writer = this.#exchange.start(this.#head)
    } catch (error) {
      this.#state = 'failed'
      this.#quiet.stop()
      this.#response.abort()
      this.#settings.onRefused(error)
      return
    }
    this.#state = 'streaming'
    this.#writer.onDrain(() => {
      this.#isBlocked = false
      this.#response.resume()
    })
    this.#quiet.restart()
    for (const bytes of this.#held) this.#write(bytes)
    this.#hasPassed = this.#held.length > 0
    this.#held = []
    this.#settings.onStarted()
  }

  #write(bytes: Buffer): void {
    if (this.#writer?.write(bytes) === false) this.#isBlocked = true
  }

  #onQuiet(): void {
    if (this.#state === 'waiting') this.#begin()
    if (this.#state !== 'streaming') return
    // A client that does not even take events needs no comments; only whole events pass, so one fits anywhere.
    if (!this.#isBlocked) this.#write(Buffer.from(this.#account.hasIds ? keepAliveAfterId : keepAlive))
    this.#quiet.restart()
  }

  #finish(): void {
    if (this.#state !== 'streaming') return
    this.#state = 'done'
    this.#quiet.stop()
  }

  #stop(code: StreamFailureCode, cause: unknown): void {
    const state = this.#state
    if (state === 'failed' || state === 'closed') return
    this.#state = state === 'done' ? 'closed' : 'failed'
    this.#quiet.stop()
    this.#response.abort()
    if (state === 'waiting') {
      this.#held = []
      this.#settings.onRefused(new GatewayError(refusalOfStreamFailure(code), { cause }))
      return
    }
    if (state === 'streaming') {
      this.#settings.onFailure(code, cause)
      this.#write(Buffer.from(this.#composeFailure(code)))
    }
    this.#writer?.end()
  }

  #composeFailure(code: StreamFailureCode): string {
    const { kind, now, makeId } = this.#settings
    const { responseId, createdAt, sequenceNumber, hasEvents } = this.#account
    return renderStreamFailure(code, {
      kind,
      responseId: responseId ?? responseIdPrefixes[kind] + makeId(),
      createdAt: createdAt ?? Math.floor(now().getTime() / 1000),
      sequenceNumber,
      hasEvents,
    })
  }

  #close(): void {
    const isWaiting = this.#state === 'waiting'
    this.#state = 'closed'
    this.#quiet.stop()
    this.#held = []
    if (isWaiting) this.#settings.onStarted()
  }
}
