import { GatewayError } from '../../base/errors/gateway-error.ts'
import {
  keepAlive,
  keepAliveAfterId,
  renderStreamFailure,
  responseIdPrefixes,
} from '../../base/errors/render-stream.ts'
import { type AccessEndCode, refusalOfStreamFailure, type StreamFailureCode } from '../../base/errors/stream-failure.ts'
import type { StreamRules } from '../../base/errors/surface.ts'
import type { ToldError } from '../../base/errors/told-error.ts'
import type { Slot, UnorderedList } from '../../base/lib/unordered-list.ts'
import type { BodyEnd, ResponseSink, UpstreamError, UpstreamResponse } from '../../http/engine.ts'
import { type Exchange, Holding, pieceBytes, type ResponseHead, type ResponseWriter } from '../../http/exchange.ts'
import { findLineEnds } from './line-ends.ts'
import { EventSplitter, part } from './split-events.ts'
import { type GoodEnd, StreamState, withoutByteOrderMark } from './stream-state.ts'
import type { StartTimer, Timer } from './timer.ts'

export type StreamSettings = Readonly<{
  keepAliveMs: number
  eventLimitBytes: number
  startTimer: StartTimer
  now: () => Date
  makeId: () => string
  open: UnorderedList<EventStreamRelay>
}>

export type StreamStart = Readonly<{
  rules: StreamRules
  head: ResponseHead
  /** Waits until the rights of the stream are judged where a change may concern them. Undefined if none does. */
  confirm: () => Promise<void> | undefined
  onStarted: () => void
  onRefused: (error: unknown) => void
  observer: StreamObserver
}>

export type StreamObserver = Readonly<{
  onStreamFailure: (code: StreamFailureCode, cause: unknown) => void
  onBug: (error: unknown) => void
}>

export type StreamSource = Pick<UpstreamResponse, 'resume' | 'abort'>

type State = 'waiting' | 'streaming' | 'done' | 'failed' | 'closed'

/**
 * Relays an event stream by whole events and reports its failure to the client (SPEC section 6).
 *
 *     waiting ── an event, or idle ───▶ streaming ── terminal event ──▶ done ── any end ──▶ closed
 *        ╰── any end ──▶ failed: a refusal   ╰── any other end ──▶ failed: response.failed
 *
 * Bytes after the terminal event pass unchanged. If the client leaves, each state ends in `closed`; the module that
 * sent the request aborts the upstream.
 */
export class EventStreamRelay implements ResponseSink {
  readonly #source: StreamSource
  readonly #exchange: Exchange
  readonly #settings: StreamSettings
  readonly #place: Slot<EventStreamRelay>
  readonly #rules: StreamRules
  readonly #confirm: StreamStart['confirm']
  readonly #observer: StreamObserver
  readonly #splitter: EventSplitter
  readonly #stream: StreamState
  readonly #keepAliveTimer: Timer
  readonly #kept: Holding
  #start: StreamStart | undefined
  #state: State = 'waiting'
  #writer: ResponseWriter | undefined
  #held: Buffer[] = []
  #heldBytes = 0
  #hasPassed = false
  #isBlocked = false

  constructor(source: StreamSource, exchange: Exchange, settings: StreamSettings, start: StreamStart) {
    this.#source = source
    this.#exchange = exchange
    this.#settings = settings
    this.#start = start
    this.#rules = start.rules
    this.#confirm = start.confirm
    this.#observer = start.observer
    this.#splitter = new EventSplitter(settings.eventLimitBytes)
    this.#stream = new StreamState(start.rules)
    this.#kept = new Holding(exchange.account)
    this.#keepAliveTimer = settings.startTimer(settings.keepAliveMs, EventStreamRelay.#onTime, this)
    this.#heldBytes = countHead(start.head)
    this.#keep()
    this.#place = settings.open.add(this)
    exchange.onEnd(EventStreamRelay.#onEnd, this)
  }

  data(bytes: Buffer): boolean {
    try {
      if (this.#state === 'waiting' || this.#state === 'streaming') this.#take(bytes)
      else if (this.#state === 'done') this.#write(bytes)
    } catch (error) {
      this.#failWithBug(error)
    }
    return !this.#isBlocked
  }

  /**
   * An end before the terminal event is a failure, since a body that is delimited by its connection also ends like this
   * when the upstream dies. At an end that framing proves, a terminal event may lack its blank line: SDKs read it.
   */
  end(how: BodyEnd): void {
    try {
      const isOpen = this.#state === 'waiting' || this.#state === 'streaming'
      const rest = isOpen ? this.#splitter.takeRest() : undefined
      const end = isOpen && how === 'framed' ? this.#stream.findGoodEnd(rest) : undefined
      // The word of the gateway must hold when it is said.
      const confirming = end?.isAdded ? this.#confirm() : undefined
      if (end && confirming) {
        confirming.then(() => this.#passLast(end)).catch((error: unknown) => this.#failWithBug(error))
        return
      }
      if (end) this.#passLast(end)
      else this.#stop('worker_disconnected', undefined, isOpen ? this.#stream.readToldError(rest) : undefined)
    } catch (error) {
      this.#failWithBug(error)
    }
  }

  fail(error: UpstreamError): void {
    if (error.fault === 'cancelled') return
    const isOpen = this.#state === 'waiting' || this.#state === 'streaming'
    const told = isOpen ? this.#stream.readToldError(this.#splitter.takeRest()) : undefined
    this.#tryStop(error.fault === 'timeout' ? 'upstream_timeout' : 'worker_disconnected', error, told)
  }

  drain(): void {
    this.#tryStop('gateway_draining', undefined)
  }

  /** Ends the stream because its rights ended. Bytes that wait for a slow client are dropped with its connection. */
  endAccess(code: AccessEndCode, cause: unknown): void {
    const hasBegun = this.#state === 'streaming' || this.#state === 'done'
    if (hasBegun && this.#isBlocked) {
      this.#source.abort()
      this.#observer.onStreamFailure(code, cause)
      this.#exchange.reset()
      return
    }
    if (hasBegun) this.#exchange.closeAfterResponse()
    this.#tryStop(code, cause)
  }

  #take(chunk: Buffer): void {
    const { bytes, ends, isTooLarge } = this.#splitter.split(chunk)
    let start = 0
    const findLineEnd = findLineEnds(bytes)
    for (const end of ends) {
      const meaning = this.#stream.read(bytes, start, end, findLineEnd)
      start = end
      if (meaning !== 'terminal-event') continue
      this.#pass(bytes)
      this.#finish()
      return
    }
    this.#pass(part(bytes, 0, start))
    if (isTooLarge) this.#stop('event_too_large', undefined)
    else this.#keep()
  }

  #passLast({ blocks }: GoodEnd): void {
    if (this.#state !== 'waiting' && this.#state !== 'streaming') return
    for (const block of blocks) this.#pass(block)
    this.#finish()
    this.#stop('worker_disconnected', undefined)
  }

  /** Counts the memory of unfinished events. If the account is full, this stream ends and its connection goes on. */
  #keep(): void {
    const keptBytes = this.#splitter.keptBytes + this.#heldBytes
    if (keptBytes === this.#kept.bytes) return
    const stop = (): void => this.#tryStop('event_too_large', undefined)
    this.#exchange.account.onRelief(keptBytes > 0 ? stop : undefined)
    this.#kept.set(keptBytes)
  }

  #letGo(): void {
    this.#splitter.drop()
    this.#held = []
    this.#heldBytes = 0
    this.#exchange.account.onRelief(undefined)
    this.#kept.set(0)
  }

  #pass(bytes: Buffer): void {
    if (bytes.length === 0) return
    if (this.#state === 'waiting') {
      this.#held.push(Buffer.from(bytes))
      this.#heldBytes += bytes.length + pieceBytes
      if (this.#stream.hasEvents) this.#begin()
      else if (this.#heldBytes > this.#settings.eventLimitBytes) this.#stop('event_too_large', undefined)
      return
    }
    this.#keepAliveTimer.restart()
    // After the gateway's own comment, the upstream's byte order mark would no longer be the stream's first character.
    this.#write(this.#hasPassed ? bytes : withoutByteOrderMark(bytes))
    this.#hasPassed = true
  }

  #begin(): void {
    const start = this.#start
    if (!start) return
    this.#start = undefined
    try {
      this.#writer = this.#exchange.startResponse(start.head)
    } catch (error) {
      this.#state = 'failed'
      this.#keepAliveTimer.stop()
      this.#source.abort()
      start.onRefused(error)
      return
    }
    this.#state = 'streaming'
    this.#writer.onDrain(() => {
      this.#isBlocked = false
      this.#source.resume()
    })
    this.#keepAliveTimer.restart()
    for (const bytes of this.#held) this.#write(bytes)
    this.#hasPassed = this.#held.length > 0
    this.#held = []
    this.#heldBytes = 0
    this.#keep()
    start.onStarted()
  }

  #write(bytes: Buffer): void {
    if (this.#writer?.write(bytes) === false) this.#isBlocked = true
  }

  static #onTime(stream: EventStreamRelay): void {
    stream.#onQuiet()
  }

  static #onEnd(_: boolean, stream: EventStreamRelay): void {
    stream.#close()
  }

  #onQuiet(): void {
    try {
      if (this.#state === 'waiting') this.#begin()
      if (this.#state !== 'streaming') return
      // A client that does not read events needs no comments. Only whole events are written, so a comment fits
      // anywhere.
      if (!this.#isBlocked) this.#write(Buffer.from(this.#stream.hasIds ? keepAliveAfterId : keepAlive))
      this.#keepAliveTimer.restart()
    } catch (error) {
      this.#failWithBug(error)
    }
  }

  #finish(): void {
    if (this.#state !== 'streaming') return
    this.#state = 'done'
    this.#keepAliveTimer.stop()
    this.#letGo()
  }

  #tryStop(code: StreamFailureCode, cause: unknown, told?: ToldError): void {
    try {
      this.#stop(code, cause, told)
    } catch (error) {
      this.#failWithBug(error)
    }
  }

  /**
   * Handles a bug here. The caller serves other streams too, so the error must not reach it. The client gets a last
   * event if the stream can still carry one; otherwise its connection breaks.
   */
  #failWithBug(error: unknown): void {
    try {
      if (this.#state === 'waiting' || this.#state === 'streaming') {
        this.#stop('internal_error', error)
        return
      }
    } catch {
      // The first error is reported; this one follows from it.
    }
    this.#letGo()
    this.#source.abort()
    this.#exchange.destroy()
    this.#observer.onBug(error)
    this.#start?.onStarted()
  }

  #stop(code: StreamFailureCode, cause: unknown, told?: ToldError): void {
    const state = this.#state
    if (state === 'failed' || state === 'closed') return
    this.#state = state === 'done' ? 'closed' : 'failed'
    this.#keepAliveTimer.stop()
    this.#source.abort()
    this.#letGo()
    if (state === 'waiting') {
      this.#start?.onRefused(new GatewayError(refusalOfStreamFailure(code), { cause, told }))
      return
    }
    if (state === 'streaming') {
      this.#observer.onStreamFailure(code, cause)
      this.#write(Buffer.from(this.#composeFailure(code, told)))
    }
    this.#writer?.end()
  }

  #composeFailure(code: StreamFailureCode, told: ToldError | undefined): string {
    const { now, makeId } = this.#settings
    const { kind } = this.#rules
    const { responseId, createdAt, sequenceNumber, hasEvents } = this.#stream
    return renderStreamFailure(code, {
      kind,
      responseId: responseId ?? responseIdPrefixes[kind] + makeId(),
      createdAt: createdAt ?? Math.floor(now().getTime() / 1000),
      sequenceNumber,
      hasEvents,
      told,
    })
  }

  #close(): void {
    const isWaiting = this.#state === 'waiting'
    this.#state = 'closed'
    this.#keepAliveTimer.stop()
    this.#letGo()
    if (isWaiting) this.#start?.onStarted()
    this.#settings.open.remove(this.#place)
  }
}

const countHead = ({ headers }: ResponseHead): number => headers.reduce((bytes, text) => bytes + text.length, 0)
