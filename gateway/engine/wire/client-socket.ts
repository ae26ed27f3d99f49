import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { resetConnection } from '../transport.ts'
import { Alarm } from './alarm.ts'
import { Intake } from './intake.ts'
import { Outlet } from './outlet.ts'
import { Reading } from './reading.ts'

/** A client's socket, as its exchanges and their bodies use it: none of them knows more of the other end. */
export class ClientSocket {
  readonly socket: Socket
  readonly peerAddress: string
  /** One at a time is enough: for a head, a body, what nobody wanted, or the next request. */
  readonly alarm = new Alarm()
  protected readonly intake: Intake
  protected readonly reading: Reading
  protected readonly outlet: Outlet

  constructor(accepted: Socket) {
    this.intake = new Intake(accepted)
    const { socket } = this.intake
    this.socket = socket
    this.reading = new Reading(socket)
    this.outlet = new Outlet(socket)
    this.peerAddress = socket.remoteAddress ?? ''
    // `close` follows and says enough.
    socket.on('error', ignore)
  }

  get isEncrypted(): boolean {
    return this.socket instanceof TLSSocket
  }

  pauseReading(): void {
    this.reading.pause()
  }

  resumeReading(): void {
    this.reading.resume()
  }

  write(bytes: string | Buffer, onLeft?: (error?: Error | null) => void): boolean {
    return this.socket.writable && this.outlet.write(bytes, onLeft)
  }

  lend(bytes: Buffer): boolean {
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
