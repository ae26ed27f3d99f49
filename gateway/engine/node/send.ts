import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { type Dispatcher, errors } from 'undici'
import { type ResponseSink, type Send, UpstreamError, type UpstreamRequest, type UpstreamResponse } from '../engine.ts'
import { type Connections, createConnections } from './connections.ts'
import { NodeRequestBody } from './request-body.ts'

/** What is kept of a body before somebody reads it: about one read of a socket. */
const earlyLimitBytes = 64 * 1024

/** Sends each request over a connection that it has to itself until its answer is whole. */
export function createSender(maxConnections: number): Readonly<{ send: Send; close: () => Promise<void> }> {
  const connections = createConnections(maxConnections)
  return { send: (request) => exchange(connections, request), close: connections.close }
}

function exchange(connections: Connections, request: UpstreamRequest): Promise<UpstreamResponse> {
  const client = connections.take(request.origin, request.timeouts.connectMs, request.isFreshConnection)
  if (!client) return Promise.reject(new UpstreamError('unreachable', { cause: new Error('too many connections') }))
  return new Promise((resolve, reject) => {
    const handler = new ResponseHandler(request.timeouts.idleMs, resolve, reject, (isWhole) =>
      isWhole ? connections.keep(client) : connections.drop(client),
    )
    request.onCancellable(handler.cancel)
    const options: Dispatcher.DispatchOptions = {
      path: request.path,
      method: request.method as Dispatcher.HttpMethod, // receive/ lets only standard methods through
      headers: request.headers as string[], // undici reads the flat pairs and does not change them
      body: request.body instanceof NodeRequestBody ? request.body.take(request.bodyLimitBytes) : null,
      headersTimeout: request.timeouts.firstByteMs,
      // The handler's own: how long a body may be silent is known when its head is.
      bodyTimeout: 0,
    }
    try {
      client.dispatch(options, handler)
    } catch (error) {
      connections.drop(client)
      reject(new UpstreamError('broken', { cause: error }))
    }
  })
}

/**
 * Undici does not say on which connection a request goes out, but announces both: the start of a request, and in
 * the same breath its head on a socket.
 */
let starting: ResponseHandler | undefined
subscribe('undici:client:sendHeaders', (message) => {
  const { socket } = message as Readonly<{ socket: Socket }> // as undici documents this channel
  starting?.sentOn(socket)
  starting = undefined
})

/** In the place of a paused socket's own `read`. */
const readNothing = (): null => null

/** Keeps what arrives before the answer is piped, which for a small answer is all of it. */
class ResponseHandler implements Dispatcher.DispatchHandler {
  readonly #idleMs: number
  readonly #resolve: (response: UpstreamResponse) => void
  readonly #reject: (error: UpstreamError) => void
  readonly #onDone: (isWhole: boolean) => void
  #controller: Dispatcher.DispatchController | undefined
  #sink: ResponseSink | undefined
  #early: Buffer[] = []
  #earlyBytes = 0
  #isCancelled = false
  #isPaused = false
  #idleTimer: NodeJS.Timeout | undefined
  #socket: Socket | undefined
  /** What the connection had received for earlier requests. */
  #bytesBefore = 0
  #outcome: 'pending' | 'complete' | UpstreamError = 'pending'

  constructor(
    idleMs: number,
    resolve: (response: UpstreamResponse) => void,
    reject: (error: UpstreamError) => void,
    onDone: (isWhole: boolean) => void,
  ) {
    this.#idleMs = idleMs
    this.#resolve = resolve
    this.#reject = reject
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

  sentOn(socket: Socket): void {
    this.#socket = socket
    this.#bytesBefore = socket.bytesRead
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, _headers: unknown, reason?: string): void {
    if (status < 200) return
    this.#resolve({
      status,
      // Undici reads the phrase as UTF-8; what node:http would refuse to write is left out.
      reason: reason !== undefined && /^[\t\x20-\x7e]*$/.test(reason) ? reason : '',
      headers: latin1Pairs(controller.rawHeaders),
      pipe: (sink, silenceMs = this.#idleMs) => this.#pipe(sink, silenceMs),
      resume: this.#resume,
      abort: this.cancel,
    })
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
    this.#reject(failure)
    this.#finish(failure)
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
    // Undici has been told of what lies in the socket, and was given nothing: it is told again.
    this.#socket?.emit('readable')
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
    this.#outcome = outcome
    clearTimeout(this.#idleTimer)
    this.#unpause()
    this.#onDone(outcome === 'complete')
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
