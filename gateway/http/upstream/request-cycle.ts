import type { Socket } from 'node:net'
import { reportFault } from '../../base/fault/guarded.ts'
import { type BodyEnd, type Surplus, UpstreamError, type UpstreamFault, type UpstreamRequest } from '../engine.ts'
import { Holding } from '../exchange.ts'
import { freeAccount } from '../memory-budget.ts'
import type { MessageHead, MessageParser } from '../parser/message-parser.ts'
import type { ParseFault } from '../parser/parse-error.ts'
import type { PreparedHeaders } from '../prepared-headers.ts'
import { Http1RequestBody } from '../server/request-body.ts'
import { UpgradedSocket } from '../tunnel.ts'
import { isSwitched } from '../websocket.ts'
import { composeFraming, composeRequestHead, measureRequestHead } from './request-head.ts'
import { type Resolvers, type ResponseSource, ResponseStream } from './response.ts'
import { hasOneReading, isKnownVersion, mayFollow } from './response-framing.ts'
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
    isForOne: boolean
    finish: (keepMs: number, kind: Surplus['kind'], hasSurplus: boolean) => void
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
  #isBegun = false
  #isSent = false
  #hasAnswered = false
  #keepMs = 0
  #kind: Surplus['kind'] = 'body'
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
    if (!request || !this.isPending) return
    try {
      const prepared = request.prepare?.()
      if (prepared instanceof Promise)
        prepared
          .then(
            (made) => this.#write(request, made),
            (cause: unknown) => this.#giveUp(cause),
          )
          .catch((error: unknown) => reportFault('upstream', error))
      else this.#write(request, prepared)
    } catch (cause) {
      this.#giveUp(cause)
    }
  }

  #giveUp(cause: unknown): void {
    this.#response.fail(new UpstreamError('cancelled', { cause }))
  }

  #write(request: UpstreamRequest, prepared: PreparedHeaders | undefined): void {
    // While the lines were made, the request may have been cancelled, or the connection closed.
    if (!this.isPending) return
    this.#isBegun = true
    try {
      const { method, body, headLimitBytes, bodyLimitBytes, timeouts } = request
      // Measured before, too; yet the lines that were made just now may be longer, and another address has another name.
      if (headLimitBytes !== undefined && measureRequestHead(request, this.#connection, prepared) > headLimitBytes) {
        this.#response.fail('head-too-large')
        return
      }
      const head = composeRequestHead(request, this.#connection, prepared)
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
      rest = parser.mend(rest)
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
    else if (parser.isComplete) this.#complete('framed', this.#isSent ? this.#keepMs : 0, !isAll)
  }

  end(): void {
    const { parser } = this.#connection
    const isWhole = parser.finish() && parser.isComplete && !this.#request
    if (isWhole) {
      this.#complete('closed', 0, false)
      return
    }
    this.#connection.drop()
    this.#response.truncate(new UpstreamError(this.#faultOfBreak()))
  }

  close(hasBeenOpen: boolean, cause: Error | undefined): void {
    this.#response.fail(hasBeenOpen ? this.#faultOfBreak() : 'unreachable', cause)
  }

  #faultOfBreak(): UpstreamFault {
    if (!this.#isBegun) return 'unsent'
    if (this.#hasAnswered) return 'protocol-error'
    return this.#connection.hasServed ? 'stale' : 'no-response'
  }

  /** The time-out covers only the time that the upstream itself takes. */
  #awaitResponse(): void {
    if (this.#request) this.#connection.deadline.set(this.#request.timeouts.firstByteMs, this.#response, failLate)
  }

  #begin(head: MessageHead): void {
    if (!hasOneReading(head)) {
      this.#response.fail('protocol-error', new Error('the head of the answer can be read in two ways'))
      return
    }
    const mayKeep = mayFollow(head) && !this.#isForHead && !this.#request?.asksForWebSocket
    this.#keepMs = mayKeep ? readIdleMs(head.headers) : 0
    this.#kind = kindOf(head.status, this.#isForHead)
    this.#request = undefined
    this.#connection.deadline.stop()
    this.#response.begin(head)
  }

  /**
   * RFC 9110 15.2: several interim responses may come, and those that were not asked for are ignored. The upstream has
   * the request already, so a refusal would have clients repeat it. Behind a 101 that only a handshake asks for, the
   * bytes are another protocol's.
   */
  #takeInterim(head: MessageHead, rest: Buffer): void {
    if (head.status === 101 && head.isUpgrade && head.version === '1.1' && this.#request?.asksForWebSocket) {
      this.#switch(this.#request, head, rest)
    } else if (head.status < 100 || head.status === 101 || !isKnownVersion(head)) {
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
  #complete(how: BodyEnd, keepMs: number, hasSurplus: boolean): void {
    this.#connection.finish(keepMs, this.#kind, hasSurplus)
    this.#response.complete(how)
  }
}

function kindOf(status: number, isForHead: boolean): Surplus['kind'] {
  if (isForHead) return 'head'
  return status === 204 || status === 304 ? `${status}` : 'body'
}

const failLate = (response: ResponseStream): void => response.fail('timeout')

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
