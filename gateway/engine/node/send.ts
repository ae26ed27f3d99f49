import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { type Dispatcher, errors, Pool } from 'undici'
import { type ResponseSink, type Send, UpstreamError, type UpstreamRequest, type UpstreamResponse } from '../engine.ts'
import { NodeRequestBody } from './request-body.ts'

/** What is kept of a body before somebody reads it: about one read of a socket. */
const earlyLimitBytes = 64 * 1024

/** Sends over undici's pools, one for each origin and connect time-out. */
export function createSender(): Readonly<{ send: Send; close: () => Promise<void> }> {
  const pools = new Map<string, Pool>()
  const poolFor = (request: UpstreamRequest): Pool => {
    const key = `${request.timeouts.connectMs} ${request.origin}`
    const known = pools.get(key)
    if (known) return known
    const pool = createPool(request, null)
    pools.set(key, pool)
    return pool
  }
  return {
    send: (request) => {
      if (!request.isFreshConnection) return exchange(poolFor(request), request)
      const pool = createPool(request, 1)
      return exchange(pool, request, () => void pool.close().catch(() => pool.destroy()))
    },
    close: async () => {
      await Promise.all([...pools.values()].map((pool) => pool.destroy()))
    },
  }
}

const createPool = (request: UpstreamRequest, connections: number | null): Pool =>
  new Pool(request.origin, {
    // No limit: streams hold a connection each, and a request that waits for one of them would wait for ever.
    connections,
    pipelining: 1,
    connect: { timeout: request.timeouts.connectMs },
    maxHeaderSize: 64 * 1024,
    // Shorter than the idle time-out of common backends, so that fewer reuses meet a closing connection.
    keepAliveTimeout: 4_000,
  })

function exchange(pool: Pool, request: UpstreamRequest, onDone = () => {}): Promise<UpstreamResponse> {
  return new Promise((resolve, reject) => {
    const handler = new ResponseHandler(request, resolve, reject, onDone)
    const options: Dispatcher.DispatchOptions = {
      path: request.path,
      method: request.method as Dispatcher.HttpMethod, // receive/ lets only standard methods through
      headers: request.headers as string[], // undici reads the flat pairs and does not change them
      body: request.body instanceof NodeRequestBody ? request.body.take(request.bodyLimitBytes) : null,
      headersTimeout: request.timeouts.firstByteMs,
      bodyTimeout: request.timeouts.idleMs,
    }
    try {
      pool.dispatch(options, handler)
    } catch (error) {
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
  readonly #onDone: () => void
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
    request: UpstreamRequest,
    resolve: (response: UpstreamResponse) => void,
    reject: (error: UpstreamError) => void,
    onDone: () => void,
  ) {
    this.#resolve = resolve
    this.#reject = reject
    this.#onDone = onDone
    request.onCancellable(() => {
      this.#isCancelled = true
      this.#controller?.abort(new UpstreamError('cancelled'))
    })
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // The client may have left while the request waited for a connection.
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
      abort: () => controller.abort(new UpstreamError('cancelled')),
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
    this.#onDone()
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
