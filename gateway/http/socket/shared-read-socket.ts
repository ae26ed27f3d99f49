import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { guarded } from '../../base/fault/guarded.ts'
import { endOf, type TunnelEnd } from '../tunnel.ts'
import { SharedReadGate } from './read-gate.ts'
import { type ReadSize, type SharedReader, shareReads } from './shared-reads.ts'

type ReadSizes = Pick<SharedReader, 'chooseSize'>
type SocketListener = (this: Socket, bytes: Buffer) => void

export class SharedReadSocket implements SharedReader {
  readonly socket: Socket
  readonly ownsBytes: boolean
  readonly #sizes: ReadSizes
  #listener: SocketListener | undefined

  constructor(accepted: Socket, sizes: ReadSizes) {
    this.#sizes = sizes
    const shared = accepted instanceof TLSSocket ? undefined : shareReads(accepted, this)
    this.socket = shared ?? accepted
    this.ownsBytes = shared === undefined
  }

  listen(listener: SocketListener): void {
    this.#listener = listener
    if (!this.ownsBytes) return
    const take = (bytes: Buffer): void => listener.call(this.socket, bytes)
    this.socket.on(
      'data',
      guarded('client', take, () => this.socket.destroy()),
    )
  }

  /** A copy outlives the event, after which a shared buffer belongs to another connection. */
  copyIfShared(bytes: Buffer): Buffer {
    return this.ownsBytes ? bytes : Buffer.from(bytes)
  }

  detach(): TunnelEnd {
    const { socket } = this
    socket.removeAllListeners('data')
    this.#listener = undefined
    if (this.ownsBytes) return endOf(socket)
    // Reads stay shared, since Node would read ahead into a buffer of its own.
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
