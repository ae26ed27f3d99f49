import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { ListenerOptions } from '../engine.ts'
import type { Exchange, RawHeaders, ResponseHead, ResponseWriter, UpgradedConnection } from '../exchange.ts'
import { joinSockets, type Tunnel, UpgradedSocket } from '../tunnel.ts'
import type { Connection } from './connection.ts'
import { type BodyOptions, NodeRequestBody } from './request-body.ts'

/** For how long a body that nobody wanted is read before its connection is dropped. */
const unwantedBodyMs = 5_000

/**
 * Refusals of a head that could be read in two ways, or not to its end. Where the next request begins is then
 * anybody's guess, so nothing more is read from the connection (RFC 9112 6.3).
 */
const closingStatuses: ReadonlySet<number> = new Set([400, 414, 417, 431, 501])

const ignore = (): void => {}

const keepHead = (headers: RawHeaders): RawHeaders => headers

export type ExchangeOptions = BodyOptions &
  Pick<ListenerOptions, 'onFault'> &
  Readonly<{
    /** Of a handshake: stops the reading of its socket and gives what the client has said since. */
    takeOver?: () => Buffer
  }>

export class NodeExchange implements Exchange {
  readonly method: string
  readonly target: string
  readonly httpVersion: string
  headers: RawHeaders
  readonly peerAddress: string
  readonly isEncrypted: boolean
  readonly body: NodeRequestBody
  readonly isHandshake: boolean
  readonly #connection: Connection
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #onFault: ListenerOptions['onFault']
  #transform: (headers: RawHeaders) => RawHeaders = keepHead
  readonly #takeOver: (() => Buffer) | undefined
  #tunnel: Tunnel | undefined
  #onEnd: ((isComplete: boolean) => void)[] = []
  #hasEnded = false
  #isClosing = false

  constructor(connection: Connection, request: IncomingMessage, response: ServerResponse, options: ExchangeOptions) {
    this.#connection = connection
    this.#request = request
    this.#response = response
    this.#onFault = options.onFault
    this.method = request.method ?? ''
    this.target = request.url ?? ''
    this.httpVersion = request.httpVersion
    this.headers = request.rawHeaders
    this.peerAddress = request.socket.remoteAddress ?? ''
    this.isEncrypted = (request.socket as TLSSocket).encrypted === true // node:http types every socket as plain
    this.body = new NodeRequestBody(request, response, options)
    this.#takeOver = options.takeOver
    this.isHandshake = options.takeOver !== undefined
    response.on('close', () => this.#end(response.writableFinished))
    // Without a listener a client's reset in the middle of a body would be an uncaught exception.
    request.on('error', ignore)
    response.on('error', ignore)
  }

  get hasStarted(): boolean {
    return this.#response.headersSent
  }

  get status(): number {
    return this.#response.headersSent ? this.#response.statusCode : 0
  }

  transformHead(transform: (headers: RawHeaders) => RawHeaders): void {
    const earlier = this.#transform
    this.#transform = earlier === keepHead ? transform : (headers) => transform(earlier(headers))
  }

  announce(status: number): void {
    if (!closingStatuses.has(status)) return
    this.#isClosing = true
    this.#connection.markRefused()
  }

  answer(head: ResponseHead, body: string): void {
    const bytes = Buffer.from(body)
    this.announce(head.status)
    const isClosing = this.#isClosing || this.#leavesBodyUnsent()
    if (isClosing) this.#connection.markRefused()
    // RFC 9110 8.6: a 204 has no body, and no length either.
    const length = head.status === 204 ? [] : ['content-length', String(bytes.length)]
    const framing = [...length, ...(isClosing ? ['connection', 'close'] : [])]
    this.#writeHead({ ...head, headers: [...head.headers, ...framing] })
    this.#response.end(bytes)
    this.#drainUnwantedBody()
  }

  start(head: ResponseHead): ResponseWriter {
    const response = this.#response
    this.#writeHead(head)
    // What is here in the same tick node:http sends in one write; a head alone leaves at the tick's end. Not by `cork`:
    // from Node 22 on, `end` overtakes what a corked answer has in chunks.
    process.nextTick(() => {
      if (!response.writableEnded) response.flushHeaders()
    })
    return {
      write: (chunk) => response.write(chunk),
      onDrain: (listener) => {
        response.on('drain', () => {
          if (!this.#call(listener)) this.destroy()
        })
      },
      end: () => {
        response.end()
        this.#drainUnwantedBody()
      },
    }
  }

  join(headers: RawHeaders, upstream: UpgradedConnection, idleMs: number): void {
    if (!this.#takeOver || !(upstream instanceof UpgradedSocket)) throw new TypeError('nothing to join')
    if (this.#hasEnded) {
      upstream.destroy()
      return
    }
    const { socket } = this.#request
    this.#writeHead({ status: 101, headers: [...headers, 'connection', 'upgrade', 'upgrade', 'websocket'] })
    this.#response.flushHeaders()
    this.#response.detachSocket(socket)
    this.#tunnel = joinSockets(socket, upstream.socket, this.#takeOver(), idleMs)
  }

  /** The client reads again. */
  goOn(): void {
    this.#response.emit('drain')
  }

  /** True while its request's body is still on its way. */
  get isReceiving(): boolean {
    return !this.#request.complete
  }

  destroy(): void {
    this.#request.socket.destroy()
  }

  /** The client has gone: node:http does not tell the answers that wait behind another one on their connection. */
  abandon(): void {
    this.#end(this.#tunnel?.isWhole() === true)
  }

  onEnd(listener: (isComplete: boolean) => void): void {
    if (this.#hasEnded) listener(this.#response.writableFinished)
    else this.#onEnd.push(listener)
  }

  #writeHead(head: ResponseHead): void {
    const headers = this.#transform(head.headers) as string[] // Node takes raw pairs in an array, but its types want them mutable
    if (head.reason === undefined) this.#response.writeHead(head.status, headers)
    else this.#response.writeHead(head.status, head.reason, headers)
    this.#forgetHead()
  }

  /** What the request said has been answered; the rest of a stream's answer may last for hours. */
  #forgetHead(): void {
    this.headers = []
    this.#request.rawHeaders = []
    this.#request.headers = {}
    this.#transform = keepHead
  }

  /** A client that waits for 100 Continue and gets a final answer may or may not send its body: RFC 9110 10.1.1. */
  #leavesBodyUnsent(): boolean {
    return this.body.expectsContinue && !this.body.isTaken
  }

  #end(isComplete: boolean): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    for (const listener of this.#onEnd) this.#call(() => listener(isComplete))
    this.#onEnd = []
  }

  /** Nobody above us but the event loop: what a listener throws would end the process. */
  #call(listener: () => void): boolean {
    try {
      listener()
      return true
    } catch (error) {
      this.#onFault(error)
      return false
    }
  }

  /**
   * A refused upload: its rest is read and dropped, for a while, so that the client sees our answer (a reset would
   * take it away again) and the next request on the connection starts where it should.
   */
  #drainUnwantedBody(): void {
    const request = this.#request
    if (request.complete || request.destroyed || this.body.length === 0) return
    const { socket } = request
    const timer = setTimeout(() => socket.destroy(), unwantedBodyMs)
    const stop = (): void => {
      clearTimeout(timer)
      socket.off('close', stop)
    }
    // Once it is answered, node:http no longer tells a request that its connection has closed.
    socket.once('close', stop)
    request.once('end', stop)
    request.resume()
  }
}
