import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { guarded } from '../../fault/guarded.ts'
import { endOf, type TunnelEnd } from '../tunnel.ts'
import { SharedReadGate } from './read-gate.ts'
import { type ReadSize, type SharedReader, shareReads } from './shared-reads.ts'

type ReadSizes = Pick<SharedReader, 'chooseSize'>
type SocketListener = (this: Socket, bytes: Buffer) => void

/** A client's socket, and who is given what arrives on it. */
export class SharedReadSocket implements SharedReader {
  readonly socket: Socket
  /** What arrives stays as it is; else whoever keeps it must ask for a copy. */
  readonly ownsBytes: boolean
  readonly #sizes: ReadSizes
  #listener: SocketListener | undefined

  /** Takes over a connection that is not read from yet. */
  constructor(accepted: Socket, sizes: ReadSizes) {
    this.#sizes = sizes
    const shared = accepted instanceof TLSSocket ? undefined : shareReads(accepted, this)
    this.socket = shared ?? accepted
    this.ownsBytes = shared === undefined
  }

  /** Has what arrives given to a guarded listener. */
  listen(listener: SocketListener): void {
    this.#listener = listener
    if (!this.ownsBytes) return
    const take = (bytes: Buffer): void => listener.call(this.socket, bytes)
    this.socket.on(
      'data',
      guarded('client', take, () => this.socket.destroy()),
    )
  }

  /** For what outlasts the event that it came with: by then its bytes may be another client's. */
  copyIfShared(bytes: Buffer): Buffer {
    return this.ownsBytes ? bytes : Buffer.from(bytes)
  }

  /** Gives the socket away; it must be paused. */
  detach(): TunnelEnd {
    const { socket } = this
    socket.removeAllListeners('data')
    this.#listener = undefined
    if (this.ownsBytes) return endOf(socket)
    // Its bytes come as they did before: Node would read ahead for what it keeps itself.
    return {
      socket,
      gate: new SharedReadGate(socket),
      listen: (listener) => {
        const copy = (bytes: Buffer): void => listener(Buffer.from(bytes))
        this.listen(guarded('client', copy, () => socket.destroy()))
      },
    }
  }

  chooseSize(): ReadSize {
    return this.#sizes.chooseSize()
  }

  onRead(bytes: Buffer): boolean {
    if (!this.#listener) return this.socket.push(Buffer.from(bytes))
    this.#listener.call(this.socket, bytes)
    return true
  }
}
