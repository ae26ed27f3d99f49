import { randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import type { PlainCode } from '../../errors/gateway-error.ts'
import { guarded } from '../../fault/guarded.ts'
import type { Slot, UnorderedList } from '../../lib/unordered-list.ts'
import type { ListenerOptions } from '../engine.ts'
import type { Exchange } from '../exchange.ts'
import { freeAccount, type MemoryBudget } from '../memory-budget.ts'
import { type MessageHead, MessageParser } from '../parser/message-parser.ts'
import { refusalOf } from '../parser/parse-error.ts'
import { composeRefusal } from '../refusal.ts'
import { guardedListener } from '../socket/shared-listener.ts'
import type { TunnelEnd } from '../tunnel.ts'
import { ClientSocket } from './client-socket.ts'
import { type ExchangeConnection, Http1Exchange } from './exchange.ts'
import { PipelinedBytes } from './pipelined-bytes.ts'
import { type BodySource, Http1RequestBody } from './request-body.ts'
import { readFraming } from './request-framing.ts'
import { keepAliveMs } from './response-head.ts'

/**
 * More than any configurable limit, so that `receive/` can tell a long target (414) from long headers (431) and render
 * the refusal.
 */
const headBytes = 32 * 1024

const unwantedBodyMs = 5_000

export type ListenerContext = Readonly<{
  options: ListenerOptions
  memory: MemoryBudget
  handle: (exchange: Exchange) => void
  isClosing: () => boolean
  connections: UnorderedList<ClientConnection>
}>

const destroy = (connection: ClientConnection): void => connection.destroy()

/** One client connection, with one exchange at a time: pipelined requests wait for the response before theirs. */
export class ClientConnection extends ClientSocket implements BodySource, ExchangeConnection {
  readonly #context: ListenerContext
  readonly #parser = new MessageParser('request', headBytes)
  #exchange: Http1Exchange | undefined
  readonly #ahead = new PipelinedBytes(this.account)
  readonly #place: Slot<ClientConnection>
  /** Later bytes are ignored: after a refusal the position of the next request is unknown. */
  #isRefused = false
  #isTunnel = false
  #isPoisoned = false

  constructor(accepted: Socket, context: ListenerContext) {
    super(accepted, context.memory)
    const { socket } = this
    this.#context = context
    try {
      this.#place = context.connections.add(this)
      this.input.listen(ClientConnection.#onData)
      socket.on('end', ClientConnection.#onEnd)
      socket.on('drain', ClientConnection.#onDrain)
      socket.on('close', ClientConnection.#onClose)
      this.deadline.set(context.options.headersTimeoutMs, this, ClientConnection.#onHeadLate)
      this.resumeReading()
    } catch (error) {
      // The accepted socket has lost its handle to this one, so only this one can close the connection.
      socket.destroy()
      this.account.close()
      throw error
    }
  }

  get work(): object | undefined {
    return this.#exchange
  }

  closeIdle(): void {
    const isIdle = !this.#exchange && !this.#parser.isInHead && this.#ahead.isEmpty
    if (isIdle && !this.#isRefused) this.socket.destroy()
  }

  override relieve(): void {
    this.#context.options.onDropped('memory')
    super.relieve()
  }

  override resumeReading(): void {
    if (!this.#ahead.isFull) super.resumeReading()
  }

  isClosing(): boolean {
    return this.#context.isClosing()
  }

  markRefused(): void {
    this.#isRefused = true
    this.#ahead.take()
  }

  onFault(error: unknown): void {
    this.#context.options.onFault(error)
  }

  /** The response was sent. A refused upload is drained for a while, since a reset would discard the response. */
  responseSent(isLast: boolean): void {
    if (isLast || this.#isRefused || this.isClosing()) {
      this.#closeLingering()
    } else if (this.#parser.isComplete) {
      this.#expectNext()
    } else {
      this.#exchange?.body.discard()
      this.deadline.set(unwantedBodyMs, this, ClientConnection.#onWaitOver)
    }
  }

  detach(): Readonly<{ end: TunnelEnd; early: Buffer }> {
    const { socket } = this
    this.#isTunnel = true
    this.writer.flush()
    this.writer.charge(freeAccount)
    this.deadline.stop()
    socket.off('end', ClientConnection.#onEnd)
    socket.off('drain', ClientConnection.#onDrain)
    this.reader.detach()
    return { end: this.input.detach(), early: this.#ahead.take() }
  }

  static readonly #onData = guardedListener(
    'client',
    (connection: ClientConnection, bytes: Buffer): void => connection.#take(bytes),
    destroy,
  )

  #take(bytes: Buffer): void {
    if (this.#isRefused || this.#isPoisoned) return
    if (this.#parser.isComplete || !this.#ahead.isEmpty) this.#keepAhead(bytes)
    else this.#read(bytes)
    this.reader.count(bytes.length, this.account.isThrottled)
  }

  #keepAhead(bytes: Buffer): void {
    this.#ahead.add(this.input.copyIfShared(bytes))
    if (this.#ahead.isFull) this.pauseReading()
  }

  #read(bytes: Buffer): void {
    const parser = this.#parser
    const isNew = !this.#exchange
    const wasInHead = parser.isInHead
    const fault = parser.execute(bytes)
    const head = parser.takeHead()
    if (head || parser.isInHead) this.holdHead(parser.headBytes)
    if (head) this.#open(head)
    else if (isNew && parser.isInHead && !wasInHead)
      this.deadline.set(this.#context.options.headersTimeoutMs, this, ClientConnection.#onHeadLate)
    this.#passBody(bytes)
    const exchange = this.#exchange
    if (isNew && exchange) this.#handle(exchange)
    if (fault) this.#takeFault(refusalOf(fault))
  }

  /**
   * A malformed body fails its request only once a stage reads it, since its sender must first learn whether it may
   * send it. The pipeline then renders the refusal, with the id of the request.
   */
  #takeFault(code: PlainCode): void {
    const exchange = this.#exchange
    if (!exchange || exchange.hasStarted) {
      this.#refuse(code)
      return
    }
    this.#isPoisoned = true
    exchange.forbidNextRequest()
    exchange.body.poison(() => this.#report(code, randomUUID()))
  }

  #open(head: MessageHead): void {
    if (head.method === 'CONNECT') {
      this.#refuse('method_not_allowed')
      return
    }
    this.deadline.stop()
    const { options } = this.#context
    const { bodyLength, awaitsContinue, isHandshake } = readFraming(head)
    const body = new Http1RequestBody(this, bodyLength, awaitsContinue, options)
    this.body = body
    this.#exchange = new Http1Exchange(this, head, body, isHandshake && options.takesHandshakes === true)
  }

  #passBody(bytes: Buffer): void {
    const exchange = this.#exchange
    if (!exchange) return
    const { isComplete, consumedBytes } = this.#parser
    for (const chunk of this.#parser.takeBody()) exchange.body.push(chunk)
    if (!isComplete) return
    if (consumedBytes < bytes.length && !this.#isRefused) this.#keepAhead(bytes.subarray(consumedBytes))
    exchange.body.finish()
    if (exchange.hasEnded) this.#expectNext()
  }

  #handle(exchange: Http1Exchange): void {
    try {
      this.#context.handle(exchange)
    } catch (error) {
      // Rethrown, it would be an uncaught exception.
      this.onFault(error)
      this.destroy()
    }
  }

  #expectNext(): void {
    this.#exchange = undefined
    this.body = undefined
    this.#parser.next()
    this.deadline.set(keepAliveMs, this, ClientConnection.#onWaitOver)
    if (this.#ahead.isEmpty) this.resumeReading()
    else setImmediate(ClientConnection.#readAhead, this)
  }

  static readonly #readAhead = guarded(
    'client',
    (connection: ClientConnection): void => {
      if (connection.#isRefused || !connection.socket.writable) return
      connection.#read(connection.#ahead.take())
      connection.resumeReading()
    },
    destroy,
  )

  static #onHeadLate(connection: ClientConnection): void {
    connection.#refuse('request_timeout')
  }

  static #onWaitOver(connection: ClientConnection): void {
    connection.socket.destroy()
  }

  static readonly #onDrain = guardedListener(
    'client',
    (connection: ClientConnection): void => {
      connection.count()
      connection.#exchange?.goOn()
    },
    destroy,
  )

  /** Like node:http: a client that ends its side does not wait for a response. */
  static readonly #onEnd = guardedListener(
    'client',
    (connection: ClientConnection): void => {
      const isInHead = connection.#parser.isInHead
      const isHalfBody = connection.#exchange !== undefined && !connection.#parser.isComplete
      if (isHalfBody && !connection.body?.isDetached) connection.#takeFault('headers_malformed')
      else if (isHalfBody || isInHead) connection.#refuse('headers_malformed')
      else {
        connection.writer.flush()
        connection.socket.end()
      }
    },
    destroy,
  )

  static readonly #onClose = guardedListener('client', (connection: ClientConnection): void => {
    connection.deadline.discard()
    connection.#parser.free()
    connection.account.close()
    connection.#exchange?.abandon()
    connection.#context.connections.remove(connection.#place)
  })

  /**
   * Answers malformed bytes, and closes. Never inside a response; for a malformed body without a response, this is the
   * response.
   */
  #refuse(code: PlainCode): void {
    if (this.#isRefused || this.#isTunnel) return
    this.markRefused()
    const exchange = this.#exchange
    const requestId = randomUUID()
    this.#report(code, requestId)
    if (exchange?.hasStarted) {
      if (exchange.hasEnded) this.#closeLingering()
      else this.destroy()
      return
    }
    this.write(composeRefusal(code, requestId))
    exchange?.abandon()
    this.#closeLingering()
  }

  #report(code: PlainCode, requestId: string): void {
    if (this.socket.bytesRead === 0) return
    const { peerAddress } = this
    this.#context.options.onMalformed({ code, requestId, peerAddress, isBody: this.#exchange !== undefined })
  }

  #closeLingering(): void {
    this.markRefused()
    this.linger()
  }
}
