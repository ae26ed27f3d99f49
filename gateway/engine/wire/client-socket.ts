import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { ConnectionAccount, MemoryBudget } from '../memory-budget.ts'
import { resetConnection } from '../transport.ts'
import { Alarm } from './alarm.ts'
import { Intake } from './intake.ts'
import { Outlet } from './outlet.ts'
import { Reading } from './reading.ts'
import type { WireRequestBody } from './request-body.ts'
import type { ReadSize } from './shared-reads.ts'

/** A client's socket, as its exchanges and their bodies use it: none of them knows more of the other end. */
export class ClientSocket {
  readonly socket: Socket
  readonly peerAddress: string
  /** One at a time is enough: for a head, a body, what nobody wanted, or the next request. */
  readonly alarm: Alarm
  readonly account: ConnectionAccount
  protected readonly intake: Intake
  protected readonly reading: Reading
  protected readonly outlet: Outlet
  /** Whether something may wait for the client, written since it was last counted or before. */
  #mayWait = false
  /** The body that is being read. */
  protected body: WireRequestBody | undefined

  /** Ends the connection, should a callback of it throw. */
  protected readonly cut = (): void => this.destroy()

  /** `onRelief` is told that the connection is cut for what it holds. */
  constructor(accepted: Socket, memory: MemoryBudget, onRelief: () => void) {
    this.alarm = new Alarm(this.cut)
    this.peerAddress = accepted.remoteAddress ?? ''
    this.account = memory.open(this.peerAddress, () => {
      onRelief()
      this.reset()
    })
    this.intake = new Intake(accepted, this.#chooseSize)
    const { socket } = this.intake
    this.socket = socket
    this.reading = new Reading(socket, !this.intake.ownsBytes)
    this.outlet = new Outlet(socket, this.account)
    // `close` follows and says enough.
    socket.on('error', ignore)
  }

  get isEncrypted(): boolean {
    return this.socket instanceof TLSSocket
  }

  readonly #chooseSize = (): ReadSize => {
    if (this.account.isSqueezed) return 'sparing'
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
    this.outlet.count()
    this.#mayWait = !this.socket.destroyed && this.socket.writableLength > 0
  }

  write(bytes: string | Buffer, onLeft?: (error?: Error | null) => void): boolean {
    this.#mayWait = true
    return this.socket.writable && this.outlet.write(bytes, onLeft)
  }

  lend(bytes: Buffer): boolean {
    this.#mayWait = true
    return this.socket.writable && this.outlet.lend(bytes)
  }

  writeContinue(): void {
    this.write('HTTP/1.1 100 Continue\r\n\r\n')
  }

  isCongested(): boolean {
    return this.outlet.isCongested()
  }

  destroy(): void {
    this.outlet.breakOff()
    this.socket.destroy()
  }

  reset(): void {
    this.outlet.breakOff()
    resetConnection(this.socket)
  }
}

const ignore = (): void => {}
