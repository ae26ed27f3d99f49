import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { readShared, shareReads } from './shared-reads.ts'

/** A client's socket, and who is given what arrives on it. */
export class Intake {
  readonly socket: Socket
  /** What arrives stays as it is; else whoever keeps it must ask for a copy. */
  readonly ownsBytes: boolean
  #listener: ((bytes: Buffer) => void) | undefined

  /** Takes over a connection that is not read from yet. */
  constructor(accepted: Socket) {
    const shared = accepted instanceof TLSSocket ? undefined : shareReads(accepted, readShared(this.#onRead))
    this.socket = shared ?? accepted
    this.ownsBytes = shared === undefined
  }

  listen(listener: (bytes: Buffer) => void): void {
    this.#listener = listener
    if (this.ownsBytes) this.socket.on('data', listener)
  }

  /** For what outlasts the event that it came with: by then its bytes may be another client's. */
  own(bytes: Buffer): Buffer {
    return this.ownsBytes ? bytes : Buffer.from(bytes)
  }

  /** From now on the socket is one like any other. */
  leave(): void {
    if (this.#listener) this.socket.off('data', this.#listener)
    this.#listener = undefined
  }

  readonly #onRead = (bytes: Buffer): boolean => {
    if (!this.#listener) return this.socket.push(Buffer.from(bytes))
    this.#listener(bytes)
    return true
  }
}
