import { once } from 'node:events'
import type { Socket } from 'node:net'
import { Deadline } from '../../base/lib/deadline.ts'
import type { Slot } from '../../base/lib/unordered-list.ts'
import type { Sharing, Surplus, UpstreamRequest } from '../engine.ts'
import type { MemoryAccount } from '../exchange.ts'
import { freeAccount } from '../memory-budget.ts'
import { MessageParser } from '../parser/message-parser.ts'
import { BatchedWriter } from '../socket/batched-writer.ts'
import { FairReader } from '../socket/fair-reader.ts'
import { gateOf } from '../socket/read-gate.ts'
import { guardedListener, joinConnection } from '../socket/shared-listener.ts'
import {
  type ReadSize,
  type SharedReader,
  setSharedReader,
  sharedReads,
  smallReadBytes,
} from '../socket/shared-reads.ts'
import { resetConnection } from '../socket/transport.ts'
import { ConnectionState } from './connection-state.ts'
import type { AnswerOwner, Idling } from './idle-connections.ts'
import type { Origin } from './origin.ts'
import { type CycleConnection, RequestCycle } from './request-cycle.ts'
import type { Resolvers } from './response.ts'
import { isCloseNotice } from './surplus.ts'

/** Four times the default of Node's own client: answers to logins with many cookies stay below it. */
const headLimitBytes = 64 * 1024

/** Buffer before its client is paused. From Node 22 on the default is four times as large. */
const highWaterMark = 16 * 1024

/**
 * Full reads that are passed on before reads become larger. They are more than the system buffers for a client that
 * takes nothing, for whom the last read must be kept.
 */
const smallReads = 4

/**
 * Time for an upstream to close a connection that serves no other request. The side that closes first keeps the port
 * for a minute: with one request a connection, the gateway would soon have none left. So it resets after that time.
 */
const lingerMs = 250

export type SurplusFacts = Pick<Surplus, 'kind' | 'upstream' | 'route'>

export type ConnectionEvents = Readonly<{
  /** An answer is complete. Unless the connection lingers, `offer` follows after a whole turn of the event loop. */
  answered: (connection: UpstreamConnection) => void
  keep: (connection: UpstreamConnection) => void
  forget: (connection: UpstreamConnection) => void
  /** Whether connections of this origin serve one request each. */
  distrusts: () => boolean
  noteSurplus: (surplus: SurplusFacts) => void
}>

const destroy = (connection: UpstreamConnection): void => connection.destroy()

export class UpstreamConnection implements CycleConnection, SharedReader, Idling<UpstreamConnection> {
  readonly authority: string
  readonly origin: string
  readonly deadline: Deadline
  slot: Slot<UpstreamConnection> | undefined
  previous: UpstreamConnection | undefined
  next: UpstreamConnection | undefined
  owner: AnswerOwner = ''
  idleSinceMs = 0
  isRested = false
  served = 0
  isAnswered = false
  isLingering = false
  /** Whether the request asks its upstream to close the connection behind the answer. */
  isForOne = false
  #sharing: Sharing | undefined
  /** Of the last complete answer. A request that has taken the connection since is not to blame for bytes beyond it. */
  #answered: Sharing | undefined
  #kind: Surplus['kind'] = 'body'
  #parser: MessageParser | undefined
  peerAddress: string | undefined
  readonly #socket: Socket
  readonly #state: ConnectionState
  readonly #writer: BatchedWriter
  readonly #events: ConnectionEvents
  #cycle: RequestCycle | undefined
  #isOpen = false
  #account: MemoryAccount = freeAccount
  #fullReads = 0
  #error: Error | undefined

  constructor(origin: Origin, isForUpgrade: boolean, events: ConnectionEvents) {
    this.deadline = new Deadline(this)
    this.authority = origin.authority
    this.origin = origin.origin
    this.#events = events
    // A socket that may leave HTTP cannot share its read buffer; nor can TLS.
    const isLikeAnyOther = isForUpgrade || origin.isEncrypted
    const socket = origin.open(isLikeAnyOther ? { highWaterMark } : { highWaterMark, onread: sharedReads })
    this.#socket = socket
    joinConnection(socket, this)
    this.#state = new ConnectionState(new FairReader(gateOf(socket, !isLikeAnyOther)))
    this.#writer = new BatchedWriter(socket, freeAccount)
    if (isLikeAnyOther) socket.on('data', UpstreamConnection.#onData)
    else setSharedReader(socket, this)
    socket.on(origin.openEvent, UpstreamConnection.#onOpen)
    socket.on('end', UpstreamConnection.#onEnd)
    socket.on('drain', UpstreamConnection.#onDrain)
    socket.on('error', UpstreamConnection.#onError)
    socket.on('close', UpstreamConnection.#onClose)
  }

  /** Created at the first byte of a response, for which thousands of connections may wait. */
  get parser(): MessageParser {
    this.#parser ??= new MessageParser('response', headLimitBytes)
    return this.#parser
  }

  get hasServed(): boolean {
    return this.served > 0
  }

  begin(request: UpstreamRequest, resolvers: Resolvers): void {
    const { sharing } = request
    this.owner = sharing?.owner ?? ''
    this.#sharing = sharing
    this.isForOne = this.#events.distrusts()
    this.#cycle = new RequestCycle(this, request, resolvers)
    this.#charge(request.account ?? freeAccount)
    this.#writer.hasWritten = false
    // Its idle timeout ends here, whatever the request waits for first: a body may take longer.
    this.deadline.stop()
    if (this.#isOpen) this.#cycle.start()
    else this.deadline.set(request.timeouts.connectMs, this, UpstreamConnection.#onUnreachable)
  }

  write(text: string): boolean {
    return this.#writer.write(text)
  }

  writeBorrowed(bytes: Buffer): boolean {
    return this.#writer.writeBorrowed(bytes)
  }

  get isHeld(): boolean {
    return this.#state.isHeld
  }

  pauseReading(): void {
    this.#state.pause()
  }

  resumeReading(): void {
    this.#state.resume()
  }

  finish(keepMs: number, kind: Surplus['kind'], hasSurplus: boolean): void {
    this.#kind = kind
    this.#answered = this.#sharing
    if (hasSurplus) this.#noteSurplus()
    if (this.#isClosed) return
    const mayLinger = this.isForOne && !hasSurplus && this.#socket.writable && !this.#socket.readableEnded
    const mayKeep = keepMs > 0 && !hasSurplus && this.#socket.writable && !this.isForOne && !this.#events.distrusts()
    if (!mayKeep && !mayLinger) {
      this.drop()
      return
    }
    // An upload may still be under way for an answer that came early.
    if (mayLinger) this.#cycle?.detach()
    this.#cycle = undefined
    this.#charge(freeAccount)
    this.served += 1
    this.#state.drain()
    this.#parser?.next()
    this.isLingering = mayLinger
    this.deadline.set(mayLinger ? lingerMs : keepMs, this, UpstreamConnection.#onIdle)
    this.#events.answered(this)
  }

  /** After a whole turn of the event loop in which the upstream said nothing more. */
  offer(): void {
    if (this.#isClosed) return
    if (this.#state.rest()) this.#events.keep(this)
    else this.drop()
  }

  /** For the next request. False if the connection may not be believed. */
  take(): boolean {
    return this.#state.take()
  }

  get #isClosed(): boolean {
    return this.#state.name === 'closed'
  }

  #noteSurplus(): void {
    const { upstream = '', route } = this.#answered ?? {}
    this.#events.noteSurplus({ kind: this.#kind, upstream, route })
  }

  release(rest: Buffer): Socket {
    const socket = this.#socket
    this.#detach()
    socket.off('data', UpstreamConnection.#onData)
    socket.off('end', UpstreamConnection.#onEnd)
    socket.off('drain', UpstreamConnection.#onDrain)
    this.#state.detach()
    if (rest.length > 0) socket.unshift(rest)
    return socket
  }

  drop(): void {
    if (this.#isClosed) return
    this.#detach()
    if (this.isLingering) resetConnection(this.#socket)
    else this.#socket.destroy()
  }

  async close(): Promise<void> {
    const closed = this.#socket.closed ? undefined : once(this.#socket, 'close')
    const cycle = this.#cycle
    this.drop()
    cycle?.close(this.#isOpen, new Error('the engine closes'))
    await closed
  }

  #charge(account: MemoryAccount): void {
    this.#account = account
    this.#writer.charge(account)
  }

  #detach(): void {
    this.#state.close()
    this.#charge(freeAccount)
    this.deadline.discard()
    this.#cycle?.detach()
    this.#cycle = undefined
    this.#events.forget(this)
  }

  destroy(): void {
    this.#break(new Error('a callback failed'))
  }

  static readonly #onOpen = guardedListener(
    'upstream',
    (connection: UpstreamConnection): void => {
      connection.#isOpen = true
      connection.#state.opened()
      connection.peerAddress = connection.#socket.remoteAddress
      connection.deadline.stop()
      connection.#cycle?.start()
    },
    destroy,
  )

  static #onUnreachable(connection: UpstreamConnection): void {
    connection.#break(new Error('connect time-out'))
  }

  static #onIdle(connection: UpstreamConnection): void {
    connection.drop()
  }

  static readonly #onDrain = guardedListener(
    'upstream',
    (connection: UpstreamConnection): void => {
      connection.#writer.count()
      connection.#cycle?.goOn()
    },
    destroy,
  )

  chooseSize(): ReadSize {
    if (this.#account.isThrottled) return 'sparing'
    return this.#state.limit(this.#fullReads >= smallReads ? 'large' : 'small')
  }

  static readonly #onError = guardedListener(
    'upstream',
    (connection: UpstreamConnection, error: Error): void => {
      connection.#error = error
    },
    destroy,
  )

  static readonly #onClose = guardedListener(
    'upstream',
    (connection: UpstreamConnection): void => {
      connection.#parser?.free()
      connection.#break(connection.#error)
    },
    destroy,
  )

  #break(cause: Error | undefined): void {
    const cycle = this.#cycle
    this.drop()
    cycle?.close(this.#isOpen, cause)
  }

  static readonly #onEnd = guardedListener(
    'upstream',
    (connection: UpstreamConnection): void => {
      if (connection.#cycle?.isPending) connection.#cycle.end()
      else connection.#leave()
    },
    destroy,
  )

  /** The upstream has closed, so it keeps the port: no reset is needed. */
  #leave(): void {
    if (this.#isClosed) return
    this.#detach()
    this.#socket.destroy()
  }

  static readonly #onData = guardedListener(
    'upstream',
    (connection: UpstreamConnection, bytes: Buffer): void => connection.#take(bytes),
    destroy,
  )

  /** Unsolicited bytes could pass for the response to the next request, so they are never read. */
  #take(bytes: Buffer): void {
    if (this.#isClosed) return
    const isAwaited = this.#cycle?.isPending === true && this.#writer.hasWritten
    // The answer that ends here has an owner, too.
    const { owner, isThrottled } = this.#account
    const startedMs = performance.now()
    if (isAwaited) this.#cycle?.read(bytes)
    else this.#refuse(bytes)
    this.#state.count(owner, bytes.length, performance.now() - startedMs, isThrottled)
  }

  #refuse(bytes: Buffer): void {
    // Before the first request they are beyond no answer.
    if (this.hasServed && !isCloseNotice(bytes)) this.#noteSurplus()
    this.#break(new Error('unsolicited bytes'))
  }

  onRead(bytes: Buffer): true {
    UpstreamConnection.#onData.call(this.#socket, bytes)
    // After enough full reads they stay large, even if a client pauses now and then.
    if (bytes.length === smallReadBytes && this.#fullReads < smallReads)
      this.#fullReads = this.#socket.isPaused() ? 0 : this.#fullReads + 1
    return true
  }
}
