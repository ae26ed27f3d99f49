import type { Socket } from 'node:net'

/** The handle that Node's sockets read with, which its types omit. */
type Handle = { reading: boolean; readStop: () => number }

/** A socket that uses `onread` obeys `pause`; any other is stopped at its handle. */
export type ReadGate = Readonly<{ close: () => void; open: () => void; detach: () => void }>

export class SharedReadGate implements ReadGate {
  readonly #socket: Socket

  constructor(socket: Socket) {
    this.#socket = socket
  }

  close(): void {
    if (!this.#socket.isPaused()) this.#socket.pause()
  }

  open(): void {
    if (this.#socket.isPaused()) this.#socket.resume()
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

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    const { _handle: handle } = this.#socket as unknown as { _handle: Handle | null }
    if (!handle?.reading) return
    handle.reading = false
    handle.readStop()
    this.#isOwed = true
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
