import { GatewayError } from '../errors/gateway-error.ts'
import { keepAlive, keepAliveAfterId, renderStreamFailure, responseIdPrefixes } from '../errors/render-stream.ts'
import { refusalOfStreamFailure, type StreamFailureCode } from '../errors/stream-failure.ts'
import type { StreamKind } from '../errors/surface.ts'
import type { ResponseSink, UpstreamError, UpstreamResponse } from '../http/engine.ts'
import { type Exchange, Holding, type ResponseHead, type ResponseWriter } from '../http/exchange.ts'
import type { Slot, UnorderedList } from '../lib/unordered-list.ts'
import { EventSplitter, part } from './split-events.ts'
import { StreamState, withoutByteOrderMark } from './stream-state.ts'
import type { StartTimer, Timer } from './timer.ts'

/** What all streams have in common. */
export type StreamSettings = Readonly<{
  /** Quiet after which a comment goes out, and with the first of them the head. */
  keepAliveMs: number
  eventLimitBytes: number
  startTimer: StartTimer
  now: () => Date
  /** For a response that never told its id. */
  makeId: () => string
  /** Those that have a client: each adds itself, and takes itself out. */
  open: UnorderedList<EventStreamRelay>
}>

/** One answer that is to become a stream. */
export type StreamStart = Readonly<{
  kind: StreamKind
  head: ResponseHead
  /** Called once: the head is out, or the client gone. */
  onStarted: () => void
  /** Called instead, with what goes out in the head's place. */
  onRefused: (error: unknown) => void
  observer: StreamObserver
}>

/** Where it is written down how a stream ended. */
export type StreamObserver = Readonly<{
  /** Called just before the client is told of a failure. */
  onStreamFailure: (code: StreamFailureCode, cause: unknown) => void
  /** Called for a bug of ours that the client cannot be told of by the stream: its connection is broken. */
  onBug: (error: unknown) => void
}>

/** The flow of an upstream's answer, without its head. */
export type StreamSource = Pick<UpstreamResponse, 'resume' | 'abort'>

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
export class EventStreamRelay implements ResponseSink {
  readonly #source: StreamSource
  readonly #exchange: Exchange
  readonly #settings: StreamSettings
  readonly #place: Slot<EventStreamRelay>
  readonly #kind: StreamKind
  readonly #observer: StreamObserver
  readonly #splitter: EventSplitter
  readonly #stream: StreamState
  readonly #keepAliveTimer: Timer
  readonly #kept: Holding
  /** Let go of once the head is out: most streams are long, and there may be many. */
  #start: StreamStart | undefined
  #state: State = 'waiting'
  #writer: ResponseWriter | undefined
  /** Comments and the like, which came while the head waits for an event; counted with that head. */
  #held: Buffer[] = []
  #heldBytes = 0
  #hasPassed = false
  #isBlocked = false

  constructor(source: StreamSource, exchange: Exchange, settings: StreamSettings, start: StreamStart) {
    this.#source = source
    this.#exchange = exchange
    this.#settings = settings
    this.#start = start
    this.#kind = start.kind
    this.#observer = start.observer
    this.#splitter = new EventSplitter(settings.eventLimitBytes)
    this.#stream = new StreamState(start.kind)
    this.#kept = new Holding(exchange.account)
    this.#keepAliveTimer = settings.startTimer(settings.keepAliveMs, () => this.#onQuiet())
    this.#heldBytes = countHead(start.head)
    this.#keep()
    this.#place = settings.open.add(this)
    exchange.onEnd(() => this.#close())
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

  /** An end by the book is none without a terminal event: a body that only the connection delimits ends like this. */
  end(): void {
    this.#tryStop('worker_disconnected', undefined)
  }

  fail(error: UpstreamError): void {
    // Our own doing: the client is about to be found gone, and its leaving is no failure.
    if (error.fault === 'cancelled') return
    this.#tryStop(error.fault === 'timeout' ? 'upstream_timeout' : 'worker_disconnected', error)
  }

  /** Ends the stream for a reason of ours. */
  drain(): void {
    this.#tryStop('gateway_draining', undefined)
  }

  #take(chunk: Buffer): void {
    const { bytes, ends, isTooLarge } = this.#splitter.split(chunk)
    let start = 0
    for (const end of ends) {
      const meaning = this.#stream.read(part(bytes, start, end))
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

  /** Counts what is kept until an event is whole. Where there is no room for it, the stream ends and not the connection. */
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
      this.#heldBytes += bytes.length
      if (this.#stream.hasEvents) this.#begin()
      else if (this.#heldBytes > this.#settings.eventLimitBytes) this.#stop('event_too_large', undefined)
      return
    }
    this.#keepAliveTimer.restart()
    // Behind a comment of ours the upstream's byte order mark would no longer be the stream's first.
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

  #onQuiet(): void {
    try {
      if (this.#state === 'waiting') this.#begin()
      if (this.#state !== 'streaming') return
      // A client that does not even take events needs no comments; only whole events pass, so one fits anywhere.
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

  #tryStop(code: StreamFailureCode, cause: unknown): void {
    try {
      this.#stop(code, cause)
    } catch (error) {
      this.#failWithBug(error)
    }
  }

  /**
   * A bug of ours. Whoever calls us knows nothing of this stream, and could only break more: so its client is told by
   * the stream where that can still have a last word, and else by a broken connection.
   */
  #failWithBug(error: unknown): void {
    try {
      if (this.#state === 'waiting' || this.#state === 'streaming') {
        this.#stop('internal_error', error)
        return
      }
    } catch {
      // The first fault says why; this one follows from it.
    }
    this.#letGo()
    this.#source.abort()
    this.#exchange.destroy()
    this.#observer.onBug(error)
    this.#start?.onStarted()
  }

  #stop(code: StreamFailureCode, cause: unknown): void {
    const state = this.#state
    if (state === 'failed' || state === 'closed') return
    this.#state = state === 'done' ? 'closed' : 'failed'
    this.#keepAliveTimer.stop()
    this.#source.abort()
    this.#letGo()
    if (state === 'waiting') {
      this.#start?.onRefused(new GatewayError(refusalOfStreamFailure(code), { cause }))
      return
    }
    if (state === 'streaming') {
      this.#observer.onStreamFailure(code, cause)
      this.#write(Buffer.from(this.#composeFailure(code)))
    }
    this.#writer?.end()
  }

  #composeFailure(code: StreamFailureCode): string {
    const { now, makeId } = this.#settings
    const kind = this.#kind
    const { responseId, createdAt, sequenceNumber, hasEvents } = this.#stream
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
    this.#keepAliveTimer.stop()
    this.#letGo()
    if (isWaiting) this.#start?.onStarted()
    this.#settings.open.remove(this.#place)
  }
}

const countHead = ({ headers }: ResponseHead): number => headers.reduce((bytes, text) => bytes + text.length, 0)
