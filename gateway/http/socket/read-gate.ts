import type { Socket } from 'node:net'

/** What Node's sockets read with; its types keep it to themselves. */
type Handle = { reading: boolean; readStop: () => number }

/** Lets a socket read, or not. One that gives its bytes to `onread` does as it is told. */
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
 * Any other socket that is paused goes on until its own buffer is full: of TLS, 64 KiB more that wait unseen. So its reads
 * are stopped below it, and what was read before still comes out, to be counted.
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

  /** From now on the socket is one like any other, and paused. */
  detach(): void {
    this.#socket.pause()
    this.#isClosed = false
    this.#socket._read = this.#read
    if (this.#isOwed) this.#read.call(this.#socket, 0)
    this.#isOwed = false
  }
}
