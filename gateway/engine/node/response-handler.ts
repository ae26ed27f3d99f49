import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type Dispatcher, errors } from 'undici'
import { type ResponseSink, type UpstreamAnswer, UpstreamError } from '../engine.ts'
import type { RawHeaders } from '../exchange.ts'
import { endsWithHead, isSoundHead } from '../sound-head.ts'
import { UpgradedSocket } from '../tunnel.ts'
import { isSwitched } from '../websocket.ts'

/** What is kept of a body before somebody reads it: about one read of a socket. */
const earlyLimitBytes = 64 * 1024

/** As undici documents its channel. */
type SentHead = Readonly<{ socket: Socket; request: { headers: string[] } }>

/**
 * Undici does not say on which connection a request goes out, but announces both: the start of a request, and in
 * the same breath its head on a socket.
 */
let starting: ResponseHandler | undefined
subscribe('undici:client:sendHeaders', (message) => {
  starting?.sentOn(message as SentHead)
  starting = undefined
})

/** In the place of a paused socket's own `read`. */
const readNothing = (): null => null

type Settle = Readonly<{ resolve: (answer: UpstreamAnswer) => void; reject: (error: UpstreamError) => void }>

/** Told at the end of a request's turn, with the address that its connection leads to. */
type OnDone = (isWhole: boolean, peerAddress: string | undefined) => void

/** Keeps what arrives before the answer is piped, which for a small answer is all of it. */
export class ResponseHandler implements Dispatcher.DispatchHandler {
  /** The headers of a WebSocket handshake, which its answer must prove to have read. */
  readonly #handshake: RawHeaders | undefined
  readonly #idleMs: number
  #promise: Settle | undefined
  readonly #onDone: OnDone
  #controller: Dispatcher.DispatchController | undefined
  #sink: ResponseSink | undefined
  #early: Buffer[] = []
  #earlyBytes = 0
  #isCancelled = false
  #isPaused = false
  #idleTimer: NodeJS.Timeout | undefined
  #socket: Socket | undefined
  #sentHead: SentHead['request'] | undefined
  /** What the connection had received for earlier requests. */
  #bytesBefore = 0
  #endsWithHead = false
  #outcome: 'pending' | 'complete' | UpstreamError = 'pending'

  constructor(idleMs: number, handshake: RawHeaders | undefined, promise: Settle, onDone: OnDone) {
    this.#handshake = handshake
    this.#idleMs = idleMs
    this.#promise = promise
    this.#onDone = onDone
  }

  /** The client may leave while we still connect: then there is nothing to abort yet. */
  readonly cancel = (): void => {
    if (this.#outcome !== 'pending') return
    this.#isCancelled = true
    this.#controller?.abort(new UpstreamError('cancelled'))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#isCancelled) controller.abort(new UpstreamError('cancelled'))
    else starting = this
  }

  sentOn({ socket, request }: SentHead): void {
    this.#sentHead = request
    this.#socket = socket
    this.#bytesBefore = socket.bytesRead
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, _headers: unknown, reason?: string): void {
    if (status < 200) return
    const headers = latin1Pairs(controller.rawHeaders)
    if (!isSoundHead(status, headers)) {
      controller.abort(new UpstreamError('broken'))
      return
    }
    this.#endsWithHead = endsWithHead(status)
    const promise = this.#promise
    this.#forgetHeads(controller)
    promise?.resolve({
      status,
      // Undici reads the phrase as UTF-8; what node:http would refuse to write is left out.
      reason: reason !== undefined && /^[\t\x20-\x7e]*$/.test(reason) ? reason : '',
      headers,
      pipe: (sink, silenceMs = this.#idleMs) => this.#pipe(sink, silenceMs),
      resume: this.#resume,
      abort: this.cancel,
    })
  }

  onRequestUpgrade(
    controller: Dispatcher.DispatchController,
    _status: number,
    _headers: unknown,
    socket: Duplex,
  ): void {
    const connection = new UpgradedSocket(socket as Socket) // undici types it wider than it is
    const headers = latin1Pairs(controller.rawHeaders)
    if (isSwitched(this.#handshake ?? [], headers)) {
      this.#promise?.resolve({ headers, connection })
    } else {
      connection.destroy()
      this.#promise?.reject(new UpstreamError('broken'))
    }
    // Undici's client has lost its connection either way.
    this.#outcome = 'complete'
    this.#onDone(false, undefined)
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#sink) {
      this.#idleTimer?.refresh()
      if (!this.#sink.data(chunk)) this.#pause()
      return
    }
    this.#early.push(chunk)
    this.#earlyBytes += chunk.length
    if (this.#earlyBytes > earlyLimitBytes) this.#pause()
  }

  onResponseEnd(): void {
    // Undici takes a reset for the end of a body that only the connection's end delimits.
    const cause = this.#socket?.errored
    this.#finish(cause ? new UpstreamError('broken', { cause }) : 'complete')
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const failure = this.#toUpstreamError(error)
    this.#promise?.reject(failure)
    this.#finish(failure)
  }

  /** Nobody needs either head any more, and the answer may last for hours; undici would keep both as long. */
  #forgetHeads(controller: Dispatcher.DispatchController): void {
    this.#promise = undefined
    controller.rawHeaders = null
    if (this.#sentHead) this.#sentHead.headers = []
    this.#sentHead = undefined
  }

  #toUpstreamError(error: Error): UpstreamError {
    if (error instanceof UpstreamError) return error
    if (error instanceof errors.HeadersTimeoutError || error instanceof errors.BodyTimeoutError)
      return new UpstreamError('timeout', { cause: error })
    if (!this.#controller) return new UpstreamError('unreachable', { cause: error })
    const isAnswered = this.#socket !== undefined && this.#socket.bytesRead > this.#bytesBefore
    return new UpstreamError(isAnswered ? 'broken' : 'unanswered', { cause: error })
  }

  #pipe(sink: ResponseSink, idleMs: number): void {
    this.#sink = sink
    let wantsMore = true
    for (const chunk of this.#early) wantsMore = sink.data(chunk)
    this.#early = []
    if (this.#outcome !== 'pending') {
      this.#tell(sink)
      return
    }
    this.#idleTimer = setTimeout(this.#onIdle, idleMs)
    if (wantsMore) this.#resume()
    else this.#pause()
  }

  /**
   * Stops the socket, not undici: undici 7 asserts, and so ends the process, when a connection that it has paused
   * ends or is reset. What undici has read already, one read of a socket, still comes.
   */
  #pause(): void {
    if (this.#isPaused || this.#outcome !== 'pending') return
    this.#isPaused = true
    if (this.#socket) this.#socket.read = readNothing
  }

  readonly #resume = (): void => {
    if (!this.#unpause()) return
    this.#idleTimer?.refresh()
    // Undici has been told of what lies in the socket, and was given nothing: it is told again. Not at once:
    // node:http tells of a drain in the middle of another answer, whose bytes undici is just reading.
    queueMicrotask(() => this.#socket?.emit('readable'))
  }

  #unpause(): boolean {
    if (!this.#isPaused) return false
    this.#isPaused = false
    if (this.#socket) Reflect.deleteProperty(this.#socket, 'read')
    return true
  }

  readonly #onIdle = (): void => {
    // Who pauses is waited for by the upstream, not the other way round.
    if (this.#isPaused) this.#idleTimer?.refresh()
    else this.#controller?.abort(new UpstreamError('timeout'))
  }

  #finish(outcome: 'complete' | UpstreamError): void {
    // Undici misses the body that the length of a 304 tells of, and breaks the connection.
    this.#outcome = this.#endsWithHead ? 'complete' : outcome
    clearTimeout(this.#idleTimer)
    this.#unpause()
    this.#onDone(outcome === 'complete', this.#socket?.remoteAddress)
    if (this.#sink) this.#tell(this.#sink)
  }

  #tell(sink: ResponseSink): void {
    if (this.#outcome === 'complete') sink.end()
    else if (this.#outcome !== 'pending') sink.fail(this.#outcome)
  }
}

/** Header bytes as they came: undici's own parsing would join, lower and decode them. */
function latin1Pairs(raw: Dispatcher.DispatchController['rawHeaders']): string[] {
  const pairs: string[] = []
  if (Array.isArray(raw)) for (const part of raw) pairs.push(typeof part === 'string' ? part : part.toString('latin1'))
  return pairs
}
