import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net'
import { reportFault } from '../../fault/guarded.ts'
import { inputBytes } from '../parser/llhttp.ts'

/** A socket reads, and its listener has done with the bytes, before another socket reads: so one buffer is enough. */
const readBuffer = Buffer.allocUnsafeSlow(inputBytes)

/** What is read at once where little is expected, or may have to be kept: for a head, or for a client that takes nothing. */
export const smallReadBytes = 16 * 1024

/** The most that is read at once: `sparing` of those for whom too much is kept already. */
export type ReadSize = 'sparing' | 'small' | 'large'

const buffers: Readonly<Record<ReadSize, Buffer>> = {
  sparing: readBuffer.subarray(0, 4 * 1024),
  small: readBuffer.subarray(0, smallReadBytes),
  large: readBuffer,
}

/**
 * Has what arrives given to `onRead`: bytes that are another's as soon as it returns. Where it returns false, nothing more
 * is read until the socket is asked for more. `chooseSize` is asked behind each read how large the next one may be.
 */
export function readShared(onRead: (bytes: Buffer) => boolean, chooseSize: () => ReadSize): OnReadOpts {
  let size: ReadSize | undefined
  const chooseBuffer = (): Buffer | undefined => {
    const chosen = chooseSize()
    if (chosen === size) return undefined
    size = chosen
    return buffers[chosen]
  }
  return {
    // Node keeps the buffer that it has where it is given none, which its types do not know: that spares it a look at it.
    buffer: chooseBuffer as () => Buffer,
    callback: (length) => {
      try {
        return onRead(readBuffer.subarray(0, length))
      } catch (error) {
        reportFault('client', error)
        return false
      }
    },
  }
}

/** What Node's own server gives a socket that it accepts, and its types keep to themselves. */
type Accepted = { _handle: object | null; _server: object | null; server: object | null }
type AcceptedOptions = SocketConstructorOpts & Readonly<Record<string, unknown>>

/**
 * The same connection, not read from yet, with its bytes in the buffer that all share. `net.connect` has `onread` for that
 * and `net.Server` has nothing, so that every read would take 64 KiB of memory of its own: a tenth of a request's cost.
 * So what the server has accepted is made a socket once more, in the way of the server itself, and the first one is let
 * go of. Undefined where this cannot be done: then the connection is as it was.
 */
export function shareReads(accepted: Socket, onread: OnReadOpts): Socket | undefined {
  const first = accepted as unknown as Accepted
  const { _handle: handle, _server: server } = first
  if (!handle || !server) return undefined
  const options: AcceptedOptions = {
    handle,
    onread,
    pauseOnCreate: true,
    allowHalfOpen: accepted.allowHalfOpen,
    readableHighWaterMark: accepted.readableHighWaterMark,
    writableHighWaterMark: accepted.writableHighWaterMark,
  }
  const socket = new Socket(options)
  // The server counts its connections by those that say whose they are.
  Object.assign(socket, { _server: server, server } satisfies Omit<Accepted, '_handle'>)
  Object.assign(first, { _handle: null, _server: null, server: null } satisfies Accepted)
  return socket
}
