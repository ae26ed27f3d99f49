import type { Socket } from 'node:net'

/** So many looks at a connection without progress between them are the whole time. */
const looks = 4

/** The size of what libuv still has to write: node counts a write only once it is whole. */
type Handle = Readonly<{ _handle?: Readonly<{ writeQueueSize?: number }> | null }>

/**
 * Calls back for each socket whose peer has taken nothing for so long of what is waiting for it: by reading nothing a
 * client would else hold its upstream for ever. By the connection and not by the answer, since a whole answer may wait
 * in the socket as well. Returns what ends the watch.
 */
export function watchSlowReaders(
  sockets: () => Iterable<Socket>,
  idleMs: number,
  onStalled: (socket: Socket) => void,
): () => void {
  const seen = new WeakMap<Socket, Readonly<{ mark: string; count: number }>>()
  const look = (): void => {
    for (const socket of sockets()) {
      if (socket.writableLength === 0) {
        seen.delete(socket)
        continue
      }
      const mark = readProgress(socket)
      const before = seen.get(socket)
      const count = before?.mark === mark ? before.count + 1 : 0
      if (count < looks) seen.set(socket, { mark, count })
      else onStalled(socket)
    }
  }
  const timer = setInterval(look, Math.max(1, idleMs / looks))
  timer.unref()
  return () => clearInterval(timer)
}

/** Changes with every byte that the peer makes room for, and with nothing else. */
function readProgress(socket: Socket): string {
  const { _handle } = socket as unknown as Handle // not in node's types
  return `${socket.bytesWritten - socket.writableLength} ${_handle?.writeQueueSize ?? 0}`
}
