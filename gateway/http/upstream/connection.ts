import { once } from 'node:events'
import type { Socket } from 'node:net'
import { guarded } from '../../fault/guarded.ts'
import type { UpstreamRequest } from '../engine.ts'
import type { MemoryAccount } from '../exchange.ts'
import { freeAccount } from '../memory-budget.ts'
import { MessageParser } from '../parser/message-parser.ts'
import { BatchedWriter } from '../socket/batched-writer.ts'
import { Deadline } from '../socket/deadline.ts'
import { FairReader } from '../socket/fair-reader.ts'
import { type ReadSize, readShared, smallReadBytes } from '../socket/shared-reads.ts'
import type { Origin } from './origin.ts'
import { type CycleConnection, RequestCycle } from './request-cycle.ts'
import type { Resolvers } from './response.ts'

const headLimitBytes = 64 * 1024

/** What may wait for a slow upstream before its client is held up. From Node 22 on the default is four times as much. */
const highWaterMark = 16 * 1024

/**
 * So many full reads are passed on before more is read at once: more than the system takes for a client that takes nothing,
 * for whom what was read last has to be kept.
 */
const smallReads = 4

/** How a connection tells its pool what becomes of it. */
export type ConnectionEvents = Readonly<{ keep: () => void; forget: () => void }>

/** One connection to an upstream: open, busy with one request, idle, gone. */
export class UpstreamConnection implements CycleConnection {
  readonly authority: string
  /** Scheme, host and port. */
  readonly origin: string
  readonly deadline: Deadline
  readonly parser = new MessageParser('response', headLimitBytes)
  /** Where it leads, once it is open. */
  peerAddress: string | undefined
  /** True once an answer came by it: its upstream may close it under the next request. */
  hasServed = false
  /** Ends the connection, and the cycle on it, should a callback of it throw. */
  readonly #cut = (): void => this.#break(new Error('a callback failed'))
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
    this.deadline = new Deadline(this.#cut)
    this.authority = origin.authority
    this.origin = origin.origin
    this.#events = events
    // A socket that leaves HTTP must be one like any other; so must one on TLS.
    const isLikeAnyOther = isForUpgrade || origin.isEncrypted
    const socket = origin.open(
      isLikeAnyOther ? { highWaterMark } : { highWaterMark, onread: readShared(this.#onShared, this.#chooseSize) },
    )
    this.#socket = socket
    this.#reader = new FairReader(socket, !isLikeAnyOther)
    this.#writer = new BatchedWriter(socket, freeAccount)
    if (isLikeAnyOther) socket.on('data', this.#onData)
    socket.on(origin.openEvent, this.#onOpen)
    socket.on('end', this.#onEnd)
    socket.on('drain', this.#onDrain)
    socket.on('error', this.#onError)
    socket.on('close', this.#onClose)
  }

  /** Sends a request, as soon as the connection is open. */
  begin(request: UpstreamRequest, resolvers: Resolvers): void {
    this.#cycle = new RequestCycle(this, request, resolvers)
    this.#charge(request.account ?? freeAccount)
    this.#writer.hasWritten = false
    // Its time without work is over, whatever its request waits for first: a body may take longer.
    this.deadline.stop()
    if (this.#isOpen) this.#cycle.start()
    else this.deadline.set(request.timeouts.connectMs, this.#onUnreachable)
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

  watchSilence(silenceMs: number, onSilence: () => void): void {
    this.deadline.set(silenceMs, onSilence)
  }

  finish(keepMs: number): void {
    if (keepMs <= 0 || this.#isDropped || !this.#socket.writable) {
      this.drop()
      return
    }
    this.#cycle = undefined
    this.#charge(freeAccount)
    this.hasServed = true
    this.parser.next()
    this.resumeReading()
    this.deadline.set(keepMs, this.#onIdle)
    this.#events.keep()
  }

  release(rest: Buffer): Socket {
    const socket = this.#socket
    this.#detach()
    socket.off('data', this.#onData)
    socket.off('end', this.#onEnd)
    socket.off('drain', this.#onDrain)
    this.#reader.detach()
    if (rest.length > 0) socket.unshift(rest)
    return socket
  }

  /** Breaks the connection. */
  drop(): void {
    if (this.#isDropped) return
    this.#detach()
    this.#socket.destroy()
  }

  /** Breaks the connection, and a cycle that is under way on it. */
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
    this.#events.forget()
  }

  readonly #onOpen = guarded(
    'upstream',
    (): void => {
      this.#isOpen = true
      this.peerAddress = this.#socket.remoteAddress
      this.deadline.stop()
      this.#cycle?.start()
    },
    this.#cut,
  )

  readonly #onUnreachable = (): void => this.#break(new Error('connect time-out'))

  readonly #onIdle = (): void => this.drop()

  readonly #onDrain = guarded(
    'upstream',
    (): void => {
      this.#writer.count()
      this.#cycle?.goOn()
    },
    this.#cut,
  )

  readonly #chooseSize = (): ReadSize => {
    if (this.#account.isThrottled) return 'sparing'
    return this.#fullReads >= smallReads ? 'large' : 'small'
  }

  readonly #onError = guarded(
    'upstream',
    (error: Error): void => {
      this.#error = error
    },
    this.#cut,
  )

  readonly #onClose = guarded(
    'upstream',
    (): void => {
      this.parser.free()
      this.#break(this.#error)
    },
    this.#cut,
  )

  #break(cause: Error | undefined): void {
    const cycle = this.#cycle
    this.drop()
    cycle?.close(this.#isOpen, cause)
  }

  readonly #onEnd = guarded(
    'upstream',
    (): void => {
      if (this.#cycle?.isPending) this.#cycle.end()
      else this.drop()
    },
    this.#cut,
  )

  /** Bytes that nobody asked for may be the answer to somebody's next request: never read as one. */
  readonly #onData = guarded(
    'upstream',
    (bytes: Buffer): void => {
      if (this.#isDropped) return
      if (!this.#writer.hasWritten) this.#break(new Error('bytes that nobody asked for'))
      else if (this.#cycle?.isPending) this.#cycle.read(bytes)
      else this.drop()
      this.#reader.count(bytes.length, this.#account.isThrottled)
    },
    this.#cut,
  )

  readonly #onShared = (bytes: Buffer): true => {
    this.#onData(bytes)
    // Once its clients have taken much, they may wait now and then.
    if (bytes.length === smallReadBytes && this.#fullReads < smallReads)
      this.#fullReads = this.#socket.isPaused() ? 0 : this.#fullReads + 1
    return true
  }
}
