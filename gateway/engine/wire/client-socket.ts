import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { resetConnection } from '../transport.ts'
import { Alarm } from './alarm.ts'
import { Intake } from './intake.ts'
import { Reading } from './reading.ts'
import { isCongested, writeTo } from './socket-flow.ts'

/** A client's socket, as its exchanges and their bodies use it: none of them knows more of the other end. */
export class ClientSocket {
  readonly socket: Socket
  readonly peerAddress: string
  /** One at a time is enough: for a head, a body, what nobody wanted, or the next request. */
  readonly alarm = new Alarm()
  protected readonly intake: Intake
  protected readonly reading: Reading

  constructor(accepted: Socket) {
    this.intake = new Intake(accepted)
    const { socket } = this.intake
    this.socket = socket
    this.reading = new Reading(socket)
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
    return this.socket.writable && writeTo(this.socket, bytes, onLeft)
  }

  writeAll(parts: readonly (string | Buffer)[]): boolean {
    if (!this.socket.writable) return false
    let hasRoom = true
    this.socket.cork()
    for (const part of parts) hasRoom = writeTo(this.socket, part)
    this.socket.uncork()
    return hasRoom || !this.isCongested()
  }

  writeContinue(): void {
    this.write('HTTP/1.1 100 Continue\r\n\r\n')
  }

  isCongested(): boolean {
    return isCongested(this.socket)
  }

  destroy(): void {
    this.socket.destroy()
  }

  reset(): void {
    resetConnection(this.socket)
  }
}

const ignore = (): void => {}
