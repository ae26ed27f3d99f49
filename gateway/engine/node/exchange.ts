import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { Exchange, RawHeaders, ResponseHead, ResponseWriter } from '../exchange.ts'
import { NodeRequestBody } from './request-body.ts'

/** What is read of a body that nobody wanted before its connection is dropped. */
const unwantedBodyBytes = 1024 * 1024
const unwantedBodyMs = 5_000

export class NodeExchange implements Exchange {
  readonly method: string
  readonly target: string
  readonly httpVersion: string
  readonly headers: RawHeaders
  readonly peerAddress: string
  readonly isEncrypted: boolean
  readonly body: NodeRequestBody
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  #onEnd: ((isComplete: boolean) => void)[] = []
  #hasEnded = false

  constructor(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean, bodyIdleTimeoutMs: number) {
    this.#request = request
    this.#response = response
    this.method = request.method ?? ''
    this.target = request.url ?? ''
    this.httpVersion = request.httpVersion
    this.headers = request.rawHeaders
    this.peerAddress = request.socket.remoteAddress ?? ''
    this.isEncrypted = (request.socket as TLSSocket).encrypted === true // node:http types every socket as plain
    this.body = new NodeRequestBody(request, response, expectsContinue, bodyIdleTimeoutMs)
    response.on('close', () => this.#end(response.writableFinished))
    // Without a listener a client's reset in the middle of a body would be an uncaught exception.
    request.on('error', () => {})
    response.on('error', () => {})
  }

  get hasStarted(): boolean {
    return this.#response.headersSent
  }

  get status(): number {
    return this.#response.headersSent ? this.#response.statusCode : 0
  }

  answer(head: ResponseHead, body: string): void {
    const bytes = Buffer.from(body)
    this.#writeHead({ ...head, headers: [...head.headers, 'content-length', String(bytes.length)] })
    this.#response.end(bytes)
    this.#drainUnwantedBody()
  }

  start(head: ResponseHead): ResponseWriter {
    const response = this.#response
    this.#writeHead(head)
    // A head and a body that are here in the same tick leave in one write; a head alone leaves at the tick's end.
    response.cork()
    process.nextTick(() => {
      if (!response.writableEnded) response.flushHeaders()
      response.uncork()
    })
    return {
      write: (chunk) => response.write(chunk),
      onDrain: (listener) => {
        response.on('drain', listener)
      },
      end: () => {
        response.end()
        this.#drainUnwantedBody()
      },
    }
  }

  destroy(): void {
    this.#request.socket.destroy()
  }

  onEnd(listener: (isComplete: boolean) => void): void {
    if (this.#hasEnded) listener(this.#response.writableFinished)
    else this.#onEnd.push(listener)
  }

  #writeHead(head: ResponseHead): void {
    // Node takes raw pairs in an array; its types want them mutable.
    const headers = this.#leavesBodyUnsent() ? [...head.headers, 'connection', 'close'] : (head.headers as string[])
    if (head.reason === undefined) this.#response.writeHead(head.status, headers)
    else this.#response.writeHead(head.status, head.reason, headers)
  }

  /** A client that waits for 100 Continue and gets a final answer may or may not send its body: RFC 9110 10.1.1. */
  #leavesBodyUnsent(): boolean {
    return this.body.expectsContinue && !this.body.isTaken
  }

  #end(isComplete: boolean): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    for (const listener of this.#onEnd) listener(isComplete)
    this.#onEnd = []
  }

  /**
   * A refused upload: its rest is read and dropped, within bounds, so that the client sees our answer
   * and the next request on the connection starts where it should.
   */
  #drainUnwantedBody(): void {
    const request = this.#request
    if (request.complete || this.body.length === 0) return
    let drainedBytes = 0
    const timer = setTimeout(() => request.socket.destroy(), unwantedBodyMs)
    request.on('data', (chunk: Buffer) => {
      drainedBytes += chunk.length
      if (drainedBytes > unwantedBodyBytes) request.socket.destroy()
    })
    request.once('close', () => clearTimeout(timer))
    request.once('end', () => clearTimeout(timer))
    request.resume()
  }
}
