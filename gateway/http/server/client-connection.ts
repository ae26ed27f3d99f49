import { randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import type { PlainCode } from '../../base/errors/gateway-error.ts'
import { guarded } from '../../base/fault/guarded.ts'
import type { Slot, UnorderedList } from '../../base/lib/unordered-list.ts'
import type { ListenerOptions } from '../engine.ts'
import type { Exchange } from '../exchange.ts'
import { freeAccount, type MemoryBudget } from '../memory-budget.ts'
import { type MessageHead, MessageParser } from '../parser/message-parser.ts'
import { refusalOf } from '../parser/parse-error.ts'
import { composeRefusal } from '../refusal.ts'
import { guardedListener } from '../socket/shared-listener.ts'
import type { TunnelEnd } from '../tunnel.ts'
import type { ConnectionPlace } from './admission.ts'
import { ClientSocket } from './client-socket.ts'
import { ClientState } from './client-state.ts'
import { type ExchangeConnection, Http1Exchange } from './exchange.ts'
import { PipelinedBytes } from './pipelined-bytes.ts'
import { type BodySource, Http1RequestBody } from './request-body.ts'
import { readFraming } from './request-framing.ts'

/**
 * More than any configurable limit, so that `stages/receive/` can tell a long target (414) from long headers (431) and render
 * the refusal.
 */
const headBytes = 32 * 1024

/** Chunks that are parsed after a refusal, which takes far longer than to discard them: RFC 9112 9.6 lets us close. */
const unwantedChunkBytes = 16 * 1024

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
  readonly #slot: Slot<ClientConnection>
  readonly #place: ConnectionPlace | undefined
  readonly #state: ClientState
  /** The owner of reads before a request is known. */
  readonly #peer = this.account.owner
  #unwantedBytes = 0

  constructor(accepted: Socket, context: ListenerContext, place?: ConnectionPlace) {
    super(accepted, context.memory)
    const { socket } = this
    this.#context = context
    this.#state = new ClientState(this, context.options)
    this.#place = place
    place?.join(this)
    try {
      this.#slot = context.connections.add(this)
      this.input.listen(ClientConnection.#onData)
      socket.on('end', ClientConnection.#onEnd)
      socket.on('drain', ClientConnection.#onDrain)
      socket.on('close', ClientConnection.#onClose)
      this.#state.start()
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
    if (this.#state.name === 'idle') this.socket.destroy()
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

  keepAliveMs(): number {
    return this.#context.options.keepAliveMs
  }

  markRefused(): void {
    this.#state.refuse()
    this.#ahead.take()
  }

  onFault(error: unknown): void {
    this.#context.options.onFault(error)
  }

  responseWritten(): void {
    this.#place?.answered()
  }

  /** The response was sent. A refused upload is drained for a while, since a reset would discard the response. */
  responseSent(isLast: boolean): void {
    if (isLast || this.#state.ignoresBytes || this.isClosing()) {
      this.#closeLingering()
    } else if (this.#state.name === 'answer') {
      this.#expectNext()
    } else {
      this.#unwantedBytes = 0
      this.#exchange?.body.discard()
      this.#state.drain()
    }
  }

  detach(): Readonly<{ end: TunnelEnd; early: Buffer }> {
    const { socket } = this
    this.#state.detach()
    this.writer.flush()
    this.writer.charge(freeAccount)
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
    if (this.#state.ignoresBytes) return
    const isInBody = this.#exchange !== undefined
    const startedMs = performance.now()
    if (this.#state.keepsBytes) this.#keepAhead(bytes)
    else if (this.#isUnwanted(bytes)) this.#closeLingering()
    else this.#read(bytes)
    // A head is bounded, and its time is the pipeline's. All requests of a proxy would share one slice.
    const tookMs = isInBody ? performance.now() - startedMs : 0
    // Only now: these bytes may have begun a request of another owner.
    this.reader.count(this.account.owner, bytes.length, tookMs, this.account.isThrottled)
  }

  #isUnwanted(bytes: Buffer): boolean {
    if (this.#state.name !== 'draining' || this.body?.length !== undefined) return false
    // An upstream may answer early, and keep the connection.
    if (!this.#exchange?.isAnsweredHere) return false
    this.#unwantedBytes += bytes.length
    return this.#unwantedBytes > unwantedChunkBytes
  }

  #keepAhead(bytes: Buffer): void {
    this.#ahead.add(this.input.copyIfShared(bytes))
    if (this.#ahead.isFull) this.pauseReading()
  }

  #read(bytes: Buffer): void {
    const parser = this.#parser
    const isNew = !this.#exchange
    const fault = parser.execute(bytes)
    const head = parser.takeHead()
    if (head || parser.isInHead) this.holdHead(parser.headBytes)
    if (head) this.#open(head)
    else if (parser.isInHead) this.#state.beginHead()
    this.#passBody(bytes)
    const exchange = this.#exchange
    if (isNew && exchange) this.#handle(exchange)
    if (fault) this.#takeFault(refusalOf(fault))
  }

  setDeadline<Body>(delayMs: number, body: Body, onSilence: (body: Body) => void): void {
    this.#state.setForBody(delayMs, body, onSilence)
  }

  stopDeadline(): void {
    this.#state.stopForBody()
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
    this.#state.poison()
    exchange.forbidNextRequest()
    exchange.body.poison(() => this.#report(code, randomUUID()))
  }

  #open(head: MessageHead): void {
    if (head.method === 'CONNECT') {
      this.#refuse('method_not_allowed')
      return
    }
    this.#state.open()
    this.reader.takeTurns()
    // The request before may have been another tenant's, by way of a proxy.
    this.account.forOrganization(undefined)
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
    if (consumedBytes < bytes.length && !this.#state.ignoresBytes) this.#keepAhead(bytes.subarray(consumedBytes))
    this.#state.complete()
    this.#place?.begin()
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
    this.#place?.rest()
    this.#parser.next()
    // By way of a proxy, the next request may be another tenant's, which owes nothing.
    if (this.account.owner !== this.#peer) this.reader.leaveTurns()
    this.#state.next(!this.#ahead.isEmpty)
    if (this.#ahead.isEmpty) this.resumeReading()
    else setImmediate(ClientConnection.#readAhead, this)
  }

  static readonly #readAhead = guarded(
    'client',
    (connection: ClientConnection): void => {
      if (!connection.socket.writable || !connection.#state.takeTurn()) return
      connection.#read(connection.#ahead.take())
      connection.resumeReading()
    },
    destroy,
  )

  headLate(): void {
    this.#refuse('request_timeout')
  }

  waitOver(): void {
    this.socket.destroy()
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
      const isHalfBody = connection.body?.isReceived === false
      if (isHalfBody && !connection.body?.isDetached) connection.#takeFault('headers_malformed')
      else if (isHalfBody || connection.#state.name === 'head') connection.#refuse('headers_malformed')
      else {
        connection.writer.flush()
        connection.socket.end()
      }
    },
    destroy,
  )

  static readonly #onClose = guardedListener('client', (connection: ClientConnection): void => {
    connection.#state.close()
    connection.#parser.free()
    connection.reader.leaveTurns()
    connection.account.close()
    connection.#exchange?.abandon()
    connection.#context.connections.remove(connection.#slot)
    connection.#place?.leave()
  })

  /**
   * Answers malformed bytes, and closes. Never inside a response; for a malformed body without a response, this is the
   * response.
   */
  #refuse(code: PlainCode): void {
    if (this.#state.isOver) return
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
    this.#place?.rest()
    this.#state.linger()
    this.#ahead.take()
    this.linger()
  }
}
