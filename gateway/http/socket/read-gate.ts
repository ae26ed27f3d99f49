import type { Socket } from 'node:net'

/** The handle that Node's sockets read with, which its types omit. */
type Handle = { reading: boolean; readStop: () => number }

/** A socket that uses `onread` obeys `pause`; any other is stopped at its handle. */
export type ReadGate = Readonly<{
  /** Whether each byte of the peer is told at once: the handle reads, and the socket holds no byte back. */
  isOpen: () => boolean
  close: () => void
  /** Closes, and keeps back what was read already. */
  hold: () => void
  open: () => void
  /** After `hold`: lets out what was read already, and stays closed. */
  letOut: () => void
  detach: () => void
}>

export const gateOf = (socket: Socket, isShared: boolean): ReadGate =>
  isShared ? new SharedReadGate(socket) : new HandleGate(socket)

const isTold = (socket: Socket): boolean => {
  const { _handle: handle } = socket as unknown as { _handle: Handle | null }
  return handle?.reading === true && !socket.isPaused() && socket.readableLength === 0
}

export class SharedReadGate implements ReadGate {
  readonly #socket: Socket

  constructor(socket: Socket) {
    this.#socket = socket
  }

  isOpen(): boolean {
    return isTold(this.#socket)
  }

  close(): void {
    if (!this.#socket.isPaused()) this.#socket.pause()
  }

  hold(): void {
    this.close()
  }

  open(): void {
    if (this.#socket.isPaused()) this.#socket.resume()
  }

  letOut(): void {
    // Nothing is kept back: a read goes to the callback before the next one begins.
  }

  detach(): void {
    this.close()
  }
}

/**
 * A paused socket without `onread` still reads until its own buffer is full: with TLS, 64 KiB more that are not
 * counted. So its reads are stopped at the handle, and earlier reads still come out.
 */
export class HandleGate implements ReadGate {
  readonly #socket: Socket
  readonly #read: Socket['_read']
  #isClosed = false
  #isOwed = false

  constructor(socket: Socket) {
    this.#socket = socket
    this.#read = socket._read
    socket._read = (size) => {
      if (this.#isClosed) this.#isOwed = true
      else this.#read.call(socket, size)
    }
  }

  isOpen(): boolean {
    return !this.#isClosed && isTold(this.#socket)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    const { _handle: handle } = this.#socket as unknown as { _handle: Handle | null }
    if (!handle?.reading) return
    handle.reading = false
    handle.readStop()
    this.#isOwed = true
  }

  hold(): void {
    this.close()
    // One read of TLS becomes several chunks, of which each may take long.
    this.#socket.pause()
  }

  letOut(): void {
    this.#socket.resume()
  }

  open(): void {
    this.#isClosed = false
    if (this.#isOwed) this.#read.call(this.#socket, 0)
    this.#isOwed = false
    if (this.#socket.isPaused()) this.#socket.resume()
  }

  detach(): void {
    this.#socket.pause()
    this.#isClosed = false
    this.#socket._read = this.#read
    if (this.#isOwed) this.#read.call(this.#socket, 0)
    this.#isOwed = false
  }
}
