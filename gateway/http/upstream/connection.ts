import { once } from 'node:events'
import type { Socket } from 'node:net'
import { Deadline } from '../../lib/deadline.ts'
import type { Slot } from '../../lib/unordered-list.ts'
import type { UpstreamRequest } from '../engine.ts'
import type { MemoryAccount } from '../exchange.ts'
import { freeAccount } from '../memory-budget.ts'
import { MessageParser } from '../parser/message-parser.ts'
import { BatchedWriter } from '../socket/batched-writer.ts'
import { FairReader } from '../socket/fair-reader.ts'
import { guardedListener, joinConnection } from '../socket/shared-listener.ts'
import {
  type ReadSize,
  type SharedReader,
  setSharedReader,
  sharedReads,
  smallReadBytes,
} from '../socket/shared-reads.ts'
import type { Origin } from './origin.ts'
import { type CycleConnection, RequestCycle } from './request-cycle.ts'
import type { Resolvers } from './response.ts'

const headLimitBytes = 64 * 1024

/** Buffer before its client is paused. From Node 22 on the default is four times as large. */
const highWaterMark = 16 * 1024

/**
 * Full reads that are passed on before reads become larger. They are more than the system buffers for a client that
 * takes nothing, for whom the last read must be kept.
 */
const smallReads = 4

export type ConnectionEvents = Readonly<{
  keep: (connection: UpstreamConnection) => void
  forget: (connection: UpstreamConnection) => void
}>

const destroy = (connection: UpstreamConnection): void => connection.destroy()

export class UpstreamConnection implements CycleConnection, SharedReader {
  readonly authority: string
  readonly origin: string
  readonly deadline: Deadline
  slot: Slot<UpstreamConnection> | undefined
  #parser: MessageParser | undefined
  peerAddress: string | undefined
  hasServed = false
  readonly #socket: Socket
  readonly #reader: FairReader
  readonly #writer: BatchedWriter
  readonly #events: ConnectionEvents
  #cycle: RequestCycle | undefined
  #isOpen = false
  #isDropped = false
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
    this.#reader = new FairReader(socket, !isLikeAnyOther)
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

  begin(request: UpstreamRequest, resolvers: Resolvers): void {
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

  pauseReading(): void {
    this.#reader.pause()
  }

  resumeReading(): void {
    this.#reader.resume()
  }

  finish(keepMs: number): void {
    if (keepMs <= 0 || this.#isDropped || !this.#socket.writable) {
      this.drop()
      return
    }
    this.#cycle = undefined
    this.#charge(freeAccount)
    this.hasServed = true
    this.#parser?.next()
    this.resumeReading()
    this.deadline.set(keepMs, this, UpstreamConnection.#onIdle)
    this.#events.keep(this)
  }

  release(rest: Buffer): Socket {
    const socket = this.#socket
    this.#detach()
    socket.off('data', UpstreamConnection.#onData)
    socket.off('end', UpstreamConnection.#onEnd)
    socket.off('drain', UpstreamConnection.#onDrain)
    this.#reader.detach()
    if (rest.length > 0) socket.unshift(rest)
    return socket
  }

  drop(): void {
    if (this.#isDropped) return
    this.#detach()
    this.#socket.destroy()
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
    this.#isDropped = true
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
    return this.#fullReads >= smallReads ? 'large' : 'small'
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
      else connection.drop()
    },
    destroy,
  )

  static readonly #onData = guardedListener(
    'upstream',
    (connection: UpstreamConnection, bytes: Buffer): void => connection.#take(bytes),
    destroy,
  )

  /** Unsolicited bytes could pass for the response to the next request, so they are never read. */
  #take(bytes: Buffer): void {
    if (this.#isDropped) return
    if (!this.#writer.hasWritten) this.#break(new Error('unsolicited bytes'))
    else if (this.#cycle?.isPending) this.#cycle.read(bytes)
    else this.drop()
    this.#reader.count(bytes.length, this.#account.isThrottled)
  }

  onRead(bytes: Buffer): true {
    UpstreamConnection.#onData.call(this.#socket, bytes)
    // After enough full reads they stay large, even if a client pauses now and then.
    if (bytes.length === smallReadBytes && this.#fullReads < smallReads)
      this.#fullReads = this.#socket.isPaused() ? 0 : this.#fullReads + 1
    return true
  }
}
