import type { Socket } from 'node:net'

/** About one read of a socket: what comes later waits in the system's buffers. */
const limitBytes = 64 * 1024

/**
 * Reads a socket that node:http has let go of, so that its client's departure is noticed, and keeps what arrives. The
 * function that comes back ends this and gives the bytes.
 */
export function keepEarlyBytes(socket: Socket, head: Buffer): () => Buffer {
  const chunks: Buffer[] = []
  let length = 0
  const keep = (chunk: Buffer): void => {
    chunks.push(chunk)
    length += chunk.length
    if (length > limitBytes) socket.pause()
  }
  // As node:http does: a client that ends its side does not wait for an answer.
  const leave = (): void => void socket.end()
  socket.on('data', keep)
  socket.on('end', leave)
  keep(head)
  return () => {
    socket.off('data', keep)
    socket.off('end', leave)
    socket.pause()
    return Buffer.concat(chunks)
  }
}
