import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { ConnectionAccount, MemoryBudget } from '../memory-budget.ts'
import { BatchedWriter } from '../socket/batched-writer.ts'
import { Deadline } from '../socket/deadline.ts'
import { FairReader } from '../socket/fair-reader.ts'
import { SharedReadSocket } from '../socket/shared-read-socket.ts'
import type { ReadSize } from '../socket/shared-reads.ts'
import { resetConnection } from '../socket/transport.ts'
import type { WireRequestBody } from './request-body.ts'

/** A client's socket, as its exchanges and their bodies use it: none of them knows more of the other end. */
export class ClientSocket {
  readonly socket: Socket
  readonly peerAddress: string
  /** One at a time is enough: for a head, a body, what nobody wanted, or the next request. */
  readonly alarm: Deadline
  readonly account: ConnectionAccount
  protected readonly intake: SharedReadSocket
  protected readonly reading: FairReader
  protected readonly writer: BatchedWriter
  /** Whether something may wait for the client, written since it was last counted or before. */
  #mayWait = false
  /** The body that is being read. */
  protected body: WireRequestBody | undefined

  /** Ends the connection, should a callback of it throw. */
  protected readonly cut = (): void => this.destroy()

  /** `onRelief` is told that the connection is cut for what it holds. */
  constructor(accepted: Socket, memory: MemoryBudget, onRelief: () => void) {
    this.alarm = new Deadline(this.cut)
    this.peerAddress = accepted.remoteAddress ?? ''
    this.account = memory.open(this.peerAddress, () => {
      onRelief()
      this.reset()
    })
    this.intake = new SharedReadSocket(accepted, this.#chooseSize)
    const { socket } = this.intake
    this.socket = socket
    this.reading = new FairReader(socket, !this.intake.ownsBytes)
    this.writer = new BatchedWriter(socket, this.account)
    // `close` follows and says enough.
    socket.on('error', ignore)
  }

  get isEncrypted(): boolean {
    return this.socket instanceof TLSSocket
  }

  readonly #chooseSize = (): ReadSize => {
    if (this.account.isThrottled) return 'sparing'
    return this.body?.isFlowing ? 'large' : 'small'
  }

  pauseReading(): void {
    this.reading.pause()
  }

  resumeReading(): void {
    this.reading.resume()
  }

  /** Counts what waits for the client; quickly where nothing was written. */
  count(): void {
    if (!this.#mayWait) return
    this.writer.count()
    this.#mayWait = !this.socket.destroyed && this.socket.writableLength > 0
  }

  write(bytes: string | Buffer, onLeft?: (error?: Error | null) => void): boolean {
    this.#mayWait = true
    return this.socket.writable && this.writer.write(bytes, onLeft)
  }

  lend(bytes: Buffer): boolean {
    this.#mayWait = true
    return this.socket.writable && this.writer.lend(bytes)
  }

  writeContinue(): void {
    this.write('HTTP/1.1 100 Continue\r\n\r\n')
  }

  isCongested(): boolean {
    return this.writer.isCongested()
  }

  destroy(): void {
    this.writer.breakOff()
    this.socket.destroy()
  }

  reset(): void {
    this.writer.breakOff()
    resetConnection(this.socket)
  }
}

const ignore = (): void => {}
