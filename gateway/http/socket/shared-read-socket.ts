import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { guarded } from '../../fault/guarded.ts'
import { endOf, type TunnelEnd } from '../tunnel.ts'
import { gateShared } from './read-gate.ts'
import { type ReadSize, readShared, shareReads } from './shared-reads.ts'

/** A client's socket, and who is given what arrives on it. */
export class SharedReadSocket {
  readonly socket: Socket
  /** What arrives stays as it is; else whoever keeps it must ask for a copy. */
  readonly ownsBytes: boolean
  #listener: ((bytes: Buffer) => void) | undefined

  /** Takes over a connection that is not read from yet. */
  constructor(accepted: Socket, chooseSize: () => ReadSize) {
    const shared =
      accepted instanceof TLSSocket ? undefined : shareReads(accepted, readShared(this.#onRead, chooseSize))
    this.socket = shared ?? accepted
    this.ownsBytes = shared === undefined
  }

  /** What the listener throws ends the connection. */
  listen(listener: (bytes: Buffer) => void, cut = (): void => void this.socket.destroy()): void {
    const onData = guarded('client', listener, cut)
    this.#listener = onData
    if (this.ownsBytes) this.socket.on('data', onData)
  }

  /** For what outlasts the event that it came with: by then its bytes may be another client's. */
  copyIfShared(bytes: Buffer): Buffer {
    return this.ownsBytes ? bytes : Buffer.from(bytes)
  }

  /** Gives the socket away; it must be paused. */
  detach(): TunnelEnd {
    const { socket } = this
    if (this.#listener) socket.off('data', this.#listener)
    this.#listener = undefined
    if (this.ownsBytes) return endOf(socket)
    // Its bytes come as they did before: Node would read ahead for what it keeps itself.
    return {
      socket,
      gate: gateShared(socket),
      listen: (listener) => this.listen((bytes) => listener(Buffer.from(bytes))),
    }
  }

  readonly #onRead = (bytes: Buffer): boolean => {
    if (!this.#listener) return this.socket.push(Buffer.from(bytes))
    this.#listener(bytes)
    return true
  }
}
