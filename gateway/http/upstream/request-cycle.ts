import type { Socket } from 'node:net'
import { UpstreamError, type UpstreamFault, type UpstreamRequest } from '../engine.ts'
import { Holding } from '../exchange.ts'
import { freeAccount } from '../memory-budget.ts'
import type { MessageHead, MessageParser } from '../parser/message-parser.ts'
import type { ParseFault } from '../parser/parse-error.ts'
import { Http1RequestBody } from '../server/request-body.ts'
import { UpgradedSocket } from '../tunnel.ts'
import { isSwitched } from '../websocket.ts'
import { composeFraming, composeRequestHead } from './request-head.ts'
import { type Resolvers, type ResponseSource, ResponseStream } from './response.ts'
import { hasUnambiguousFraming } from './response-framing.ts'
import { Upload, type UploadConnection, type UploadEvents } from './upload.ts'

/** Interim responses before the final one. An upstream that sends more is broken or hostile. */
const mostInterimHeads = 32
const mostInterimBytes = 64 * 1024

export type CycleConnection = ResponseSource &
  UploadConnection &
  Readonly<{
    authority: string
    parser: MessageParser
    hasServed: boolean
    finish: (keepMs: number) => void
    release: (rest: Buffer) => Socket
  }>

export class RequestCycle implements UploadEvents {
  readonly #connection: CycleConnection
  readonly #response: ResponseStream
  readonly #isForHead: boolean
  /** Released at the head of the response, which may last for hours. */
  #request: UpstreamRequest | undefined
  #upload: Upload | undefined
  readonly #head: Holding
  #isSent = false
  #hasAnswered = false
  #keepMs = 0
  #interimHeads = 0
  #interimBytes = 0

  constructor(connection: CycleConnection, request: UpstreamRequest, resolvers: Resolvers) {
    this.#connection = connection
    this.#request = request
    this.#isForHead = request.method === 'HEAD'
    const account = request.account ?? freeAccount
    this.#head = new Holding(account)
    this.#response = new ResponseStream(connection, request.timeouts.idleMs, account, resolvers)
    request.onCancellable(this)
  }

  cancel(): void {
    this.#response.fail('cancelled')
  }

  get isPending(): boolean {
    return this.#response.isPending
  }

  start(): void {
    const request = this.#request
    if (!request) return
    try {
      const { method, body, bodyLimitBytes, timeouts } = request
      const head = composeRequestHead(request, this.#connection.authority)
      if (body instanceof Http1RequestBody) {
        this.#upload = new Upload(this.#connection, method, head, body, this)
        this.#upload.start(bodyLimitBytes, timeouts.bodyIdleMs)
      } else {
        this.#connection.write(head + composeFraming(method, 0))
        this.sent()
      }
    } catch (cause) {
      this.#response.fail('protocol-error', cause)
    }
  }

  sent(): void {
    this.#isSent = true
    this.#upload = undefined
    this.#awaitResponse()
  }

  blocked(isBlocked: boolean): void {
    if (isBlocked) this.#awaitResponse()
    else if (this.#request) this.#connection.deadline.stop()
  }

  failed(error: UpstreamError): void {
    this.#response.fail(error)
  }

  goOn(): void {
    this.#upload?.goOn()
  }

  detach(): void {
    this.#head.set(0)
    this.#upload?.detach()
    this.#upload = undefined
  }

  read(bytes: Buffer): void {
    const { parser } = this.#connection
    this.#hasAnswered = true
    let rest = bytes
    do {
      parser.hasNoBody = this.#isForHead
      const fault = parser.execute(rest)
      rest = rest.subarray(parser.consumedBytes)
      if (this.#request) this.#interimBytes += parser.consumedBytes
      const head = parser.takeHead()
      this.#head.set(parser.isInHead ? parser.headBytes : 0)
      if (!head || head.status >= 200) {
        this.#readFinal(head, fault, rest.length === 0)
        return
      }
      this.#takeInterim(head, rest)
    } while (rest.length > 0 && this.isPending)
  }

  #readFinal(head: MessageHead | undefined, fault: ParseFault | undefined, isAll: boolean): void {
    const { parser } = this.#connection
    if (head) this.#begin(head)
    for (const chunk of parser.takeBody()) this.#response.data(chunk)
    if (!this.isPending) return
    if (fault) this.#response.fail('protocol-error', new Error(fault.code))
    else if (parser.isComplete) this.#complete(isAll && this.#isSent ? this.#keepMs : 0)
  }

  end(): void {
    const { parser } = this.#connection
    const isWhole = parser.finish() && parser.isComplete && !this.#request
    if (isWhole) {
      this.#complete(0)
      return
    }
    this.#connection.finish(0)
    this.#response.truncate(new UpstreamError(this.#faultOfBreak()))
  }

  close(hasBeenOpen: boolean, cause: Error | undefined): void {
    this.#response.fail(hasBeenOpen ? this.#faultOfBreak() : 'unreachable', cause)
  }

  #faultOfBreak(): UpstreamFault {
    if (this.#hasAnswered) return 'protocol-error'
    return this.#connection.hasServed ? 'stale' : 'no-response'
  }

  /** The time-out covers only the time that the upstream itself takes. */
  #awaitResponse(): void {
    if (this.#request) this.#connection.deadline.set(this.#request.timeouts.firstByteMs, this.#response, failLate)
  }

  #begin(head: MessageHead): void {
    if (!isReadableHead(head)) {
      this.#response.fail('protocol-error', new Error('the head of the answer can be read in two ways'))
      return
    }
    const mayKeep = head.isKeptAlive && !this.#isForHead && !this.#request?.asksForWebSocket
    this.#keepMs = mayKeep ? readIdleMs(head.headers) : 0
    this.#request = undefined
    this.#connection.deadline.stop()
    this.#response.begin(head)
  }

  /**
   * RFC 9110 15.2: several interim responses may come. The gateway never asks for `100 Continue`, and for a switch of
   * protocols only with a handshake.
   */
  #takeInterim(head: MessageHead, rest: Buffer): void {
    if (head.status === 101 && head.isUpgrade && this.#request?.asksForWebSocket) {
      this.#switch(this.#request, head, rest)
    } else if (head.status <= 101 || head.version !== '1.1') {
      this.#response.fail('protocol-error', new Error('an answer that was not asked for'))
    } else if (this.#interimHeads === mostInterimHeads || this.#interimBytes > mostInterimBytes) {
      this.#response.fail('protocol-error', new Error('too many interim answers'))
    } else {
      this.#interimHeads += 1
      this.#connection.parser.next()
    }
  }

  #switch(request: UpstreamRequest, head: MessageHead, rest: Buffer): void {
    if (isSwitched(request.headers, head.headers))
      this.#response.upgrade(head.headers, new UpgradedSocket(this.#connection.release(rest)))
    else this.#response.fail('protocol-error', new Error('not the answer to this handshake'))
  }

  /** Frees the connection before the client learns of the end and sends its next request. */
  #complete(keepMs: number): void {
    this.#connection.finish(keepMs)
    this.#response.complete()
  }
}

const failLate = (response: ResponseStream): void => response.fail('timeout')

/** Refuses heads that the parser and the framing rule let pass: an invalid version, or two lengths. */
const isReadableHead = ({ status, version, headers }: MessageHead): boolean =>
  (version === '1.1' || version === '1.0') && hasUnambiguousFraming(status, headers)

/** Shorter than the idle time-out of common backends, so that fewer requests meet a closing connection. */
const usualIdleMs = 4_000

/** Margin for the delay of an upstream's `Keep-Alive`, and the longest that is believed. */
const keepAliveMarginMs = 2_000
const longestIdleMs = 600_000

export function readIdleMs(headers: readonly string[]): number {
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] ?? ''
    if (name.length !== 10 || name.toLowerCase() !== 'keep-alive') continue
    const [, seconds] = /timeout=(\d{1,9})/i.exec(headers[index + 1] ?? '') ?? []
    if (seconds !== undefined) return Math.max(0, Math.min(Number(seconds) * 1_000 - keepAliveMarginMs, longestIdleMs))
  }
  return usualIdleMs
}
