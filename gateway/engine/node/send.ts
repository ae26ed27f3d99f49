import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { type Dispatcher, errors } from 'undici'
import { type ResponseSink, type Send, UpstreamError, type UpstreamRequest, type UpstreamResponse } from '../engine.ts'
import { type Connections, createConnections } from './connections.ts'
import { NodeRequestBody } from './request-body.ts'

/** What is kept of a body before somebody reads it: about one read of a socket. */
const earlyLimitBytes = 64 * 1024

/** Sends each request over a connection that it has to itself until its answer is whole. */
export function createSender(): Readonly<{ send: Send; close: () => Promise<void> }> {
  const connections = createConnections()
  return { send: (request) => exchange(connections, request), close: connections.close }
}

function exchange(connections: Connections, request: UpstreamRequest): Promise<UpstreamResponse> {
  const client = connections.take(request.origin, request.timeouts.connectMs, request.isFreshConnection)
  return new Promise((resolve, reject) => {
    const handler = new ResponseHandler(resolve, reject, (isWhole) =>
      isWhole ? connections.keep(client) : connections.drop(client),
    )
    request.onCancellable(handler.cancel)
    const options: Dispatcher.DispatchOptions = {
      path: request.path,
      method: request.method as Dispatcher.HttpMethod, // receive/ lets only standard methods through
      headers: request.headers as string[], // undici reads the flat pairs and does not change them
      body: request.body instanceof NodeRequestBody ? request.body.take(request.bodyLimitBytes) : null,
      headersTimeout: request.timeouts.firstByteMs,
      bodyTimeout: request.timeouts.idleMs,
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

/** Keeps what arrives before the answer is piped, which for a small answer is all of it. */
class ResponseHandler implements Dispatcher.DispatchHandler {
  readonly #resolve: (response: UpstreamResponse) => void
  readonly #reject: (error: UpstreamError) => void
  readonly #onDone: (isWhole: boolean) => void
  #controller: Dispatcher.DispatchController | undefined
  #sink: ResponseSink | undefined
  #early: Buffer[] = []
  #earlyBytes = 0
  #isCancelled = false
  #socket: Socket | undefined
  /** What the connection had received for earlier requests. */
  #bytesBefore = 0
  #outcome: 'pending' | 'complete' | UpstreamError = 'pending'

  constructor(
    resolve: (response: UpstreamResponse) => void,
    reject: (error: UpstreamError) => void,
    onDone: (isWhole: boolean) => void,
  ) {
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
      pipe: (sink) => this.#pipe(sink),
      resume: () => controller.resume(),
      abort: this.cancel,
    })
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#sink) {
      if (!this.#sink.data(chunk)) controller.pause()
      return
    }
    this.#early.push(chunk)
    this.#earlyBytes += chunk.length
    if (this.#earlyBytes > earlyLimitBytes) controller.pause()
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

  #pipe(sink: ResponseSink): void {
    this.#sink = sink
    let wantsMore = true
    for (const chunk of this.#early) wantsMore = sink.data(chunk)
    this.#early = []
    if (this.#outcome !== 'pending') this.#tell(sink)
    else if (!wantsMore) this.#controller?.pause()
    else if (this.#earlyBytes > earlyLimitBytes) this.#controller?.resume()
  }

  #finish(outcome: 'complete' | UpstreamError): void {
    this.#outcome = outcome
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
